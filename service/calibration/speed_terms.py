"""Terms of inference speed: what is usual of each, and the levels that it may differ at."""

from __future__ import annotations

from collections.abc import Mapping

from service.calibration.hierarchy import Level, Term
from service.calibration.native_terms import BACKEND_TERMS, READS, UNPACKING

_HARDWARE = (Level("vendor", 0.10), Level("family", 0.15))
#: What memory reaches of its peak was told by microbenchmarks of most families, which streams of
#: weights follow within a few per cent.
_STREAMED = (Level("vendor", 0.05), Level("family", 0.08))
#: What keeps 16-bit products from their peak keeps narrower ones from theirs: on Hopper large ones
#: reach 0.79 to 0.80 in 16 bit (XLA, matmul_interpolator_data.h, 2025) and 0.76 to 0.78 in 8 bit
#: (TileLang, benchmark/matmul_fp8, 2025).
NARROW = (Level("vendor", 0.04), Level("family", 0.09))
#: Rates over power are known of most families, other than by how far kernels fall short of peaks.
_POWERED = (Level("vendor", 0.04), Level("family", 0.08))
_KERNELS = (Level("class", 0.25), Level("kernels", 0.08))
#: Products of experts are kernels that engines bring with them: sorted and multiplied in one, tuned
#: for shapes and devices or not; so are the small kernels around them, fused or not.
_GROUPED = (Level("class", 0.25), Level("engine", 0.15), Level("generation", 0.05))
_NARROWED = (Level("class", 0.25), Level("engine", 0.25), Level("generation", 0.10))
#: How unevenly experts are chosen is a matter of models and texts, whatever the engine.
_POPULAR = (Level("class", 0.01), Level("engine", 0.01), Level("generation", 0.01))
_TILES = (Level("class", 0.15), Level("kernels", 0.05))
_ATTENTION = (Level("class", 0.15), Level("kernels", 0.10))
#: How vectors fare with attention is a matter of how registers and caches of a family suit it:
#: llama.cpp's kernel for one query takes eight, sums over lanes for each key, and reads keys and
#: values again for the next eight, at a few per cent of the peak of lanes (fattn-vec, 2025; issue
#: 10439 and pull request 12032, RDNA 3).
_VECTORS = (Level("class", 0.05), Level("kernels", 0.15))
_ENGINES = (Level("class", 0.15), Level("engine", 0.12), Level("generation", 0.12))
#: How weights are widened is the engine's: by tiles on the way into products, or whole before them.
_DEQUANTISED = (Level("class", 0.20), Level("engine", 0.12), Level("generation", 0.08))
#: How fast packed weights are read is that of a kernel, which engines bring with them.
_PACKED = (Level("class", 0.08), Level("engine", 0.12), Level("generation", 0.08))
_EXPERTS = (Level("class", 0.10), Level("engine", 0.10), Level("generation", 0.05))
#: What was traced of engines' steps is known of them within a factor of two, whatever others of
#: their class take.
_STEPS = (Level("class", 0.05), Level("engine", 0.06), Level("generation", 0.06))
_GAPS = (Level("class", 0.15), Level("engine", 0.10), Level("generation", 0.05))
_SEQUENCES = (Level("class", 0.05), Level("engine", 0.08), Level("generation", 0.04))
#: Nobody traced how prompts start; what waits for what is each engine's own affair.
_STARTS = (Level("class", 0.20), Level("engine", 0.25), Level("generation", 0.05))
#: How servers tell tokens and hand inputs to ranks is rewritten from generation to generation.
_TOLD = (Level("class", 0.01), Level("engine", 0.01), Level("generation", 0.07))
#: So is how tokens are chosen; what is asked of it, such as a share of the most likely, is the
#: publication's.
_CHOICES = (Level("class", 0.05), Level("engine", 0.03), Level("generation", 0.15))
_LINKS = (Level("link", 0.20),)
#: Small messages were timed on each kind of link, and take up to twice as long or half as long, two
#: standard deviations, by what sends them: eager calls of a library, or kernels within a graph.
_MESSAGES = (Level("link", 0.065),)
_HOSTS = (Level("vendor", 0.03), Level("host", 0.10))

#: Kernels of a step with prompts, of which no graphs are captured, are issued as eager ones are:
#: fewer and fused, about ten in a layer, of some 10 us each from Python (PyTorch, CUDA Graphs,
#: 2021); native code takes 2 to 4 us each.
_PROMPT_LAYER_S = {
    "vllm": 1.5e-4,
    "vllm@before-0.2.6": 2.5e-4,
    "vllm@before-0.6": 2.5e-4,
    "tgi": 1.5e-4,
}

#: What lies between two steps: schedules and inputs made in Python while the accelerator waits,
#: 2 ms of the 4 ms that traces of vLLM before 0.6 show with some tens of sequences, whose output
#: takes 0.1 ms each (RFCs 6854 and 6913 of the project, 2024); half as much since V1 (its blog,
#: 2025), and half of that where the scheduler runs a step ahead and inputs alone are made between
#: steps (pull request 19970, 2025). Managers of batches in C++ run ahead of the accelerator.
_STEP_S = {
    "vllm": 2e-3,
    "vllm@v1-0.8": 1e-3,
    "vllm@v1": 1e-3,
    "vllm@0.14": 5e-4,
    "tensorrt-llm": 3e-4,
    "lmdeploy": 3e-4,
    "mlc-llm": 3e-4,
}

#: What a sequence adds to a step of engines that wait for its token to be told before they compute
#: the next: output processing of 0.1 ms each in vLLM before 0.6 (RFC 6913 of the project, 2024),
#: which was the smaller half of 62% of the time that its server and scheduler took (vLLM blog,
#: 5 September 2024). Batches of programs of fixed shapes stay as they are until all are answered:
#: nothing is scheduled, and tokens are chosen on the accelerator. TensorRT-LLM and LMDeploy manage
#: batches in C++, others in Python. Text Generation Inference schedules in Rust, but decodes the
#: text of one token after the other in Python, looks for the ends of answers and packs what the
#: scheduler is told, all before the next step (generate_token in its flash_causal_lm.py, 2024):
#: about as much as output processing in vLLM.
_SEQUENCE_S = {
    "fixed-shapes": 2e-6,
    "tensorrt-llm": 5e-6,
    "lmdeploy": 5e-6,
    "tgi": 1e-4,
    "vllm@before-0.2.6": 2.2e-4,
    "vllm@before-0.6": 2.2e-4,
}

#: What choosing a token moves for each entry of the vocabulary [B]: logits are read, widened,
#: normalised and searched. Where a share of the most likely tokens is asked for, as models' own
#: settings do, vLLM sorts all of them: 6.2 ms for 512 times 131,072 (its pull request 40376, 2026),
#: a hundred picoseconds each, at 3 to 4 TB/s. Logits are widened and divided by a temperature
#: before, and normalised, divided by exponential values and searched after that, 50 bytes more.
_SAMPLED_BYTES = {"vllm": 400.0}

#: What a process of the server takes to tell a token, of which the engine's process knows nothing:
#: 12,850 tokens/s of a model of 1.2e9 parameters on an A100, 78 us each (pull request 12287 of
#: vLLM, 2025, before it made some of it cheaper), in servers whose hosts take a sixth longer than
#: those that times are of (``host_ratio``). Others are not known to have such a limit.
_TOLD_S = {"vllm@v1-0.8": 6e-5, "vllm@v1": 6e-5, "vllm@0.14": 6e-5}

#: What a server that shares the engine's process adds to a step: a third of all time with hundreds
#: of sequences, where what is scheduled takes 29 % (vLLM blog, 5 September 2024, of the releases
#: before it), much of which goes with their number; bubbles of 4 ms in all with some tens (RFC
#: 6854); and no more than 3 ms where a few are answered, of 8.2 ms a token on two H100 that Ray
#: joins (pull request 3466, 2024). Later ones answer requests in another process.
_SERVED_S = {"vllm@before-0.2.6": 3e-3, "vllm@before-0.6": 3e-3}

#: What a step waits until another rank has its inputs. Up to 0.5.0 Ray handed them over: Llama 2 7B
#: on two A100 took 12.1 ms a token with it, and 8.5 without (pull request 3763 of vLLM, 2024).
#: From 0.5.1 processes do by default, through shared memory (5230 and 5755, 2024), for which little
#: is left of the 22 ms that a token of 70B took on eight (issue 7567, 2024). Releases from 0.2.6 on
#: together lie between the two.
_RANKS_S = {"vllm@before-0.2.6": 3.6e-3, "vllm@before-0.6": 1e-3}

#: Layers that ``device_map`` divides run one after the other. Others leave little idle: llama.cpp
#: got 1.58 times the speed of one card from two in Q4_0 with 16 parts of a prompt, and almost twice
#: in F16 (its pull request 4918, 2024).
_PIPELINED_RATIO = {"eager": 0.0}

#: Share of peak that kernels reach where matrix units are instructions of shader cores, fed through
#: their registers: 37 of 59 TFLOPS by hipBLASLt on RDNA 3.5 for large products (ROCm, 2025), of
#: which those of prompts reach some two thirds. On an RX 7900 XTX large ones reach 95 of 123 TFLOPS
#: in 16 bit, 87 where they are still larger (issue 103 of torch-performance-test-data, 2026); on
#: RDNA 4 114 of 195 (issue 10861 of rocm-libraries, 2026). Apple's matrix instructions run at the
#: rate of its shaders. Gaudi's matrix engines are not fed by threads, and their graphs keep them
#: busy: 16-bit products reach all but a hundredth of their peak (Lee et al., Debunking the CUDA
#: Myth, 2025), and prompts in 8 bit often more than nine tenths (Lee et al., Faster Inference of
#: LLMs using FP8 on the Intel Gaudi, 2025).
_MATRIX_RATIO = {
    "amd-rdna3": 0.5,
    "amd-rdna3.5": 0.4,
    "amd-rdna4": 0.4,
    "apple-silicon": 0.75,
    "intel-gaudi": 0.85,
    "intel-gaudi3": 0.85,
}
_NARROW_RATIO = {"intel-gaudi": 1.0, "intel-gaudi3": 1.0}

#: So many of them for a joule are no limit to any accelerator.
UNLIMITED = 5e12
#: What large 16-bit products sustain for each watt of thermal design power: MI300X 708 TFLOPS of
#: 750 W, MI325X 843 of 1000 W, MI355X 1600 of 1400 W (AMD, Measuring Max-Achievable FLOPs, 2025);
#: T4 below half of its peak once clocks fall (Jia et al., Dissecting the NVidia Turing T4 GPU,
#: 2019). Others: seven tenths of what the datasheet of the module with the highest limit divides
#: to, where that is no more than generations of their process reach. Power that nobody publishes
#: limits no clocks: what the catalog has of Google follows from something else.
FLOPS_PER_JOULE = {
    "google": UNLIMITED,
    "amd-cdna2": 5e11,
    "amd-cdna3": 9e11,
    "amd-cdna4": 1.15e12,
    "amd-rdna3": 3e11,
    "amd-rdna3.5": 5e11,
    "amd-rdna4": 4.5e11,
    "intel-gaudi3": 1.3e12,
    "nvidia-volta": 3e11,
    "nvidia-turing": 3.5e11,
    "nvidia-ampere": 6.5e11,
    "nvidia-ampere-ga10x": 5e11,
    "nvidia-ada": 6e11,
    "nvidia-hopper": 1e12,
    "nvidia-blackwell": 1.6e12,
    "nvidia-blackwell-gb20x": 6e11,
}

#: Kernels one by one: from Python some 10 us each (PyTorch, CUDA Graphs, 2021), about fifty in a
#: layer of Transformers: 16 of norms, 10 of rotations, 7 of their angles, 6 of attention and its
#: cache, 11 of products, activation and sums (its modeling_llama.py, 2024). AutoAWQ's fused layers
#: have 17: five products of two kernels each, two norms, one of attention with rotation and cache,
#: four of activation and sums; yet modules are called, and tensors cut and reshaped, from Python
#: all the same (its fused modules, 2024). From native code kernels take 2 to 4 us each. ExLlama
#: issues fourteen of a layer from there, and from Python the four of attention, with a dozen views
#: of tensors (its model.py, 2023). Before vLLM and Text Generation Inference captured graphs, each
#: step was issued as those with prompts are.
_LAYER_S = {
    "eager": 5e-4,
    "autoawq": 3e-4,
    "llama.cpp-like": 6e-5,
    "exllama@v1": 1e-4,
    "vllm@before-0.2.6": _PROMPT_LAYER_S["vllm@before-0.2.6"],
    "tgi@before-2.0": _PROMPT_LAYER_S["tgi"],
}

#: Engines that loop over experts: eager code selects rows, multiplies three times, weighs and adds
#: up, some ten kernels (Transformers before grouped products; AutoAWQ takes fused ones); programs
#: of fixed shapes run the experts that they hold one after the other (Optimum Habana). Others
#: multiply all in one kernel.
_EXPERT_S = {
    "compiled": 1e-7,
    "llama.cpp-like": 1e-7,
    "eager": 1e-4,
    "autoawq": 1e-6,
    "fixed-shapes": 6e-6,
}

#: What starting another program takes where each shape has one of its own. On Neuron all cores of a
#: replica load it, of which the libraries alone take 1 ms at first (issue 994 of aws-neuron-sdk,
#: 2024), while hosts embed and hand over the prompt; the runtime's switch from one program to
#: another took up to twenty times as long before it was made asynchronous (AWS Neuron, release
#: notes of the runtime, 2.25, 2025): some milliseconds, to within a factor of four.
_PROMPTS_S = {"transformers-neuronx": 5e-3}

#: Kernels of AutoAWQ that are faster with many rows (GEMM) take a fifth longer with one than those
#: for vectors (its README, 2023). vLLM took them over as they were (``awq_gemm``), and advised
#: against them for speed (its documentation, Supported hardware and AWQ, until 2024).
_PACKED_MEMORY_RATIO = {"autoawq": 0.8, "vllm@before-0.2.6": 0.8, "vllm@before-0.6": 0.8}

#: Rows of partly filled tiles: half of 64 to 128 in cuBLAS and CUTLASS, and of 128 in llama.cpp's
#: own kernels. Those of AWQ for 4-bit weights have 16 (``gemm_forward_4bit_cuda_m16n128k32``).
_TILE_ROWS = {"eager": 16.0, "llama.cpp-like": 64.0}

#: What a product of an expert takes in prompts of engines that loop over experts: llama.cpp
#: gathers, quantises, multiplies and scatters the rows of each, kernels of 5 to 10 us that are too
#: small to fill the accelerator (``ggml_cuda_mul_mat_id``, 2024-2025).
_PROMPT_PRODUCT_S = {"llama.cpp-like": 2.5e-5}

#: The smallest collective: twice round a ring of 24 cores at 1 to 2 us a hop (AWS Neuron
#: documentation, Intra-node Collective Communications, 2025); 43 us for eight bytes over the slots
#: of eight RTX 4090 (issue 1530 of NCCL, 2024). Over Ethernet a message takes 8 to 10 us to the
#: other chip (the catalog's latency of Gaudi 2), and an all-reduce sends two, one after the other.
#: In a torus a hop takes 1 us (Austin et al., How to Scale Your Model, 2025, part 3), and eight
#: chips reduce and gather in four hops each, as their links go both ways.
_COLLECTIVE_S = {"ring": 7e-5, "pcie": 4.3e-5, "ethernet": 3e-5, "torus": 1e-5}

#: What programs read of the bandwidth of processors: STREAM reaches four fifths of it on servers,
#: seven tenths where a die of cores has one link of 32 bytes a cycle to two channels (Ryzen since
#: 7000, at 2 GHz), and less where 32 bits of LPDDR4X feed four cores; threads wait for the slowest
#: after each product. Accelerators: streaming kernels in microbenchmarks, to within some 6 %. Reads
#: reach 0.95 of the peak of an H100 over PCIe (te42kyfo, gpu-benches, 2023), and 0.87 of those of
#: an A100 with 40 GB and of an RTX 2080 Ti (ProjectPhysX, OpenCL-Benchmark, 2023).
#: Lattice-Boltzmann kernels, which write as much as they read, reach some 0.06 less than reads, and
#: tell of the rest (ProjectPhysX, FluidX3D, 2025): 0.80 to 0.85 of an H100, 0.84 of an A100 with
#: 40 GB but 0.77 with 80 GB, 0.85 of an RTX 4090, 0.88 of an RTX 3090, 0.81 to 0.88 of RTX 50,
#: 0.81 of B200, 0.75 of RDNA 4, 0.77 of RDNA 3.5 and 0.84 to 0.87 of Apple's.
_MEMORY_RATIO = {
    "cpu-x86": 0.72,
    "cpu-arm": 0.72,
    "amd-rdna3.5": 0.84,
    "amd-rdna4": 0.83,
    "apple-silicon": 0.88,
    "nvidia-turing": 0.865,
    "nvidia-ampere": 0.86,
    "nvidia-ampere-ga10x": 0.92,
    "nvidia-ada": 0.92,
    "nvidia-hopper": 0.91,
    "nvidia-blackwell": 0.89,
    "nvidia-blackwell-gb20x": 0.91,
}

#: Level Zero, by which SYCL and oneAPI drive Intel's graphics cards, submits kernels one by one,
#: graphs being off by default: 7 billion parameters in Q4_0 take 14 to 20 ms a token on cards
#: whose memory needs 1 to 7 ms for them, and so for others (llama.cpp, docs/backend/SYCL.md, 2025).
_HOST_RATIO = {
    **{f"intel/{host}": 3.5 for host in ("desktop", "workstation", "laptop", "mini-pc")},
    # Threads of processors wait for each other after each operation: 2 us with eight of a Ryzen, 3
    # us with eight of an EPYC, and longer the more there are (llama.cpp, pull requests 9461 and
    # 9598, 2024). A layer has some thirty; servers have tens of threads on several dies, and are
    # fastest with fewer than they have cores (issue 6434, EPYC 9654: 60 of 96). Judged from these.
    "cpu/server-cpu": 2.5,
}

#: A ring goes on in one of a link's two directions, and both cores of a chip share its links (AWS,
#: Trn1 and Inf2 architecture, 2025). Gaudi's engines feed ports without taking compute units: eight
#: of them reduce at 513 GB/s over ports of 525, and gather at 509 (Intel Gaudi documentation,
#: Collectives Performance, 2025).
_LINK_RATIO = {"ring": 0.3, "ethernet": 0.95}

#: SGLang's kernels with tiles of 64 rows reach 230 to 266 TFLOPS on an H200, whose 32-bit units
#: have a peak of 67 (its pull request 11730, 2025). Those of vLLM reached 104 to 116 on an H100 in
#: February 2025 (its pull request 13932); later tiles are held to what is usual.
_SCALED_TILES_RATIO = {"vllm@v0-0.6.6": 1.7}

#: Compiled graphs narrow what the next product takes while the one before runs, as Gaudi's vector
#: cores work beside its matrix engines: little more than beginning is left of it, as of an expert.
#: vLLM sorts rows by experts in 20 to 27 us first (its pull request 55225, 2026), narrows them in
#: kernels of some 7 us before either product, and sums what comes of them.
_NARROW_EXPERTS_S = {"optimum-habana": 6e-6, "vllm": 4.5e-5}

#: Terms by what they are a property of, with the levels of ``SPEED_LEVELS``. Usual values: what
#: large products, streaming kernels and collectives reach in vendors' and users' published
#: microbenchmarks, and what engines add that run steps as graphs.
TERMS: Mapping[str, tuple[Term, ...]] = {
    "speed/hardware": (
        Term("matrix_16bit_ratio", 0.62, 0.10, 0.90, 0.15, _HARDWARE, usual_of=_MATRIX_RATIO),
        Term(
            *("narrow_8bit_ratio", 0.95, 0.4, 1.2, 0.10, NARROW),
            logarithmic=True,
            usual_of=_NARROW_RATIO,
        ),
        Term("narrow_4bit_ratio", 0.75, 0.4, 1.2, 0.10, NARROW, logarithmic=True),
        Term("memory_ratio", 0.87, 0.30, 0.97, 0.10, _STREAMED, usual_of=_MEMORY_RATIO),
        Term("overlap_ratio", 0.90, 0.0, 1.0, 0.20, _HARDWARE),
        Term(
            *("matrix_flops_per_joule", 8e11, 5e10, 1e13, 0.10, _POWERED),
            logarithmic=True,
            usual_of=FLOPS_PER_JOULE,
        ),
    ),
    "speed/kernels": (
        Term(*("tile_rows", 48.0, 2.0, 256.0, 0.15, _TILES), logarithmic=True, usual_of=_TILE_ROWS),
        Term(
            *("prompt_product_s", 1e-7, 1e-8, 1e-3, 0.10, _KERNELS),
            logarithmic=True,
            usual_of=_PROMPT_PRODUCT_S,
        ),
        UNPACKING,
        READS,
    ),
    "speed/attention": (
        Term("attention_matrix_ratio", 0.55, 0.005, 0.90, 0.25, _ATTENTION),
        Term("attention_memory_ratio", 0.65, 0.05, 0.97, 0.20, _ATTENTION),
        Term("vector_attention_ratio", 0.02, 0.001, 0.5, 0.10, _VECTORS, logarithmic=True),
    ),
    "speed/engines": (
        Term("step_s", 1e-3, 1e-6, 3e-2, 0.10, _STEPS, logarithmic=True, usual_of=_STEP_S),
        Term("layer_s", 3e-5, 1e-6, 2e-3, 0.20, _GAPS, logarithmic=True, usual_of=_LAYER_S),
        Term("replayed_ratio", 0.4, 0.05, 1.5, 0.20, _GAPS, logarithmic=True),
        Term("expert_s", 1e-6, 1e-8, 1e-3, 0.10, _EXPERTS, logarithmic=True, usual_of=_EXPERT_S),
        # Nothing is taken as known of how experts are chosen and multiplied: priors are wide, and
        # the same for all engines.
        Term("expert_ratio", 0.75, 0.10, 1.0, 0.20, _GROUPED),
        Term("expert_half_elements", 1e6, 1e3, 3e7, 0.20, _GROUPED, logarithmic=True),
        Term(
            *("narrow_experts_s", 3e-5, 1e-6, 1e-3, 0.20, _NARROWED),
            logarithmic=True,
            usual_of=_NARROW_EXPERTS_S,
        ),
        Term(
            *("scaled_tiles_ratio", 3.5, 0.2, 50.0, 0.10, _NARROWED),
            logarithmic=True,
            usual_of=_SCALED_TILES_RATIO,
        ),
        Term("popularity_ratio", 1.0, 0.0, 3.0, 0.30, _POPULAR),
        Term(
            "sequence_s", 1e-5, 1e-7, 2e-3, 0.10, _SEQUENCES, logarithmic=True, usual_of=_SEQUENCE_S
        ),
        Term(
            *("sampled_bytes", 12.0, 2.0, 2e3, 0.10, _CHOICES),
            logarithmic=True,
            usual_of=_SAMPLED_BYTES,
        ),
        Term("served_s", 1e-6, 1e-7, 3e-2, 0.05, _TOLD, logarithmic=True, usual_of=_SERVED_S),
        Term("ranks_s", 1e-6, 1e-7, 3e-2, 0.05, _TOLD, logarithmic=True, usual_of=_RANKS_S),
        Term("told_s", 1e-6, 1e-7, 1e-3, 0.05, _TOLD, logarithmic=True, usual_of=_TOLD_S),
        Term(
            *("prompt_layer_s", 4e-5, 1e-6, 2e-3, 0.20, _ENGINES),
            logarithmic=True,
            usual_of=_PROMPT_LAYER_S,
        ),
        Term(
            *("prompts_s", 1e-4, 1e-6, 5e-2, 0.15, _STARTS), logarithmic=True, usual_of=_PROMPTS_S
        ),
        Term("pipelined_ratio", 0.8, 0.0, 1.0, 0.3, _ENGINES, usual_of=_PIPELINED_RATIO),
        Term("dequantised_ratio", 0.85, 0.10, 1.0, 0.20, _DEQUANTISED),
        Term(
            *("packed_memory_ratio", 0.95, 0.40, 1.0, 0.10, _PACKED), usual_of=_PACKED_MEMORY_RATIO
        ),
    ),
    "speed/backends": BACKEND_TERMS,
    "speed/hosts": (
        Term(*("host_ratio", 1.0, 0.2, 5.0, 0.02, _HOSTS), logarithmic=True, usual_of=_HOST_RATIO),
    ),
    "speed/links": (
        Term("link_ratio", 0.60, 0.10, 0.95, 0.20, _LINKS, usual_of=_LINK_RATIO),
        Term(
            *("collective_s", 1.2e-5, 1e-6, 2e-4, 0.02, _MESSAGES),
            logarithmic=True,
            usual_of=_COLLECTIVE_S,
        ),
    ),
}
ALL_TERMS = tuple(term for terms in TERMS.values() for term in terms)
