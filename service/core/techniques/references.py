"""Documents that techniques are taken from."""

from __future__ import annotations

from service.core.techniques.technique import Reference


def _paper(number: str, year: int, title: str) -> Reference:
    return Reference(title, year, f"https://arxiv.org/abs/{number}")


SUBLINEAR = _paper("1604.06174", 2016, "Chen et al., Training Deep Nets with Sublinear Memory Cost")
RECOMPUTATION = _paper(
    "2205.05198",
    2022,
    "Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models",
)
MIXED_PRECISION = _paper("1710.03740", 2017, "Micikevicius et al., Mixed Precision Training")
ADAM_8_BIT = _paper(
    "2110.02861", 2021, "Dettmers et al., 8-bit Optimizers via Block-wise Quantization"
)
ADAFACTOR = _paper(
    "1804.04235",
    2018,
    "Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost",
)
LION = _paper("2302.06675", 2023, "Chen et al., Symbolic Discovery of Optimization Algorithms")
LORA = _paper("2106.09685", 2021, "Hu et al., LoRA: Low-Rank Adaptation of Large Language Models")
QLORA = _paper("2305.14314", 2023, "Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs")
ZERO = _paper(
    "1910.02054",
    2019,
    "Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
)
ZERO_OFFLOAD = _paper(
    "2101.06840", 2021, "Ren et al., ZeRO-Offload: Democratizing Billion-Scale Model Training"
)
ZERO_INFINITY = _paper(
    "2104.07857", 2021, "Rajbhandari et al., ZeRO-Infinity: Breaking the GPU Memory Wall"
)
FSDP = _paper(
    "2304.11277",
    2023,
    "Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel",
)
MEGATRON = _paper(
    "1909.08053", 2019, "Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Models"
)
PIPELINES = _paper(
    "2104.04473",
    2021,
    "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters",
)
RING_ATTENTION = _paper(
    "2310.01889", 2023, "Liu et al., Ring Attention with Blockwise Transformers"
)
GSHARD = _paper("2006.16668", 2020, "Lepikhin et al., GShard: Scaling Giant Models")
FLASH_ATTENTION = _paper(
    "2205.14135", 2022, "Dao et al., FlashAttention: Fast and Memory-Efficient Exact Attention"
)
LIGER = _paper("2410.10989", 2024, "Hsu et al., Liger Kernel: Efficient Triton Kernels")
CUT_LOSSES = _paper(
    "2411.09009", 2024, "Wijmans et al., Cut Your Losses in Large-Vocabulary Language Models"
)
MULTI_QUERY = _paper(
    "1911.02150", 2019, "Shazeer, Fast Transformer Decoding: One Write-Head is All You Need"
)
GROUPED_QUERY = _paper(
    "2305.13245", 2023, "Ainslie et al., GQA: Training Generalized Multi-Query Transformer Models"
)
MISTRAL = _paper("2310.06825", 2023, "Jiang et al., Mistral 7B")
LINEAR_ATTENTION = _paper("2006.16236", 2020, "Katharopoulos et al., Transformers are RNNs")
MAMBA = _paper("2312.00752", 2023, "Gu and Dao, Mamba: Linear-Time Sequence Modeling")
KIVI = _paper(
    "2402.02750", 2024, "Liu et al., KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache"
)
FP8 = _paper("2209.05433", 2022, "Micikevicius et al., FP8 Formats for Deep Learning")
AWQ = _paper("2306.00978", 2023, "Lin et al., AWQ: Activation-aware Weight Quantization")
GPTQ = _paper("2210.17323", 2022, "Frantar et al., GPTQ: Accurate Post-Training Quantization")
PAGED_ATTENTION = _paper(
    "2309.06180",
    2023,
    "Kwon et al., Efficient Memory Management for LLM Serving with PagedAttention",
)
RADIX_ATTENTION = _paper(
    "2312.07104", 2023, "Zheng et al., SGLang: Efficient Execution of Structured LM Programs"
)
SARATHI = _paper(
    "2403.02310", 2024, "Agrawal et al., Taming Throughput-Latency Tradeoff with Sarathi-Serve"
)
FLEXGEN = _paper(
    "2303.06865",
    2023,
    "Sheng et al., FlexGen: High-Throughput Generative Inference with a Single GPU",
)
SPECULATIVE = _paper(
    "2211.17192",
    2022,
    "Leviathan et al., Fast Inference from Transformers via Speculative Decoding",
)
SPARSE_GPT = _paper(
    "2301.00774", 2023, "Frantar and Alistarh, SparseGPT: Language Models Can Be Pruned in One-Shot"
)
DISTILLATION = _paper(
    "1503.02531", 2015, "Hinton et al., Distilling the Knowledge in a Neural Network"
)
POND = _paper(
    "2203.00241", 2023, "Li et al., Pond: CXL-Based Memory Pooling Systems for Cloud Platforms"
)
PAGE_PLACEMENT = _paper(
    "2206.02878",
    2023,
    "Maruf et al., TPP: Transparent Page Placement for CXL-Enabled Tiered Memory",
)
INFERENCE_SCALING = _paper(
    "2211.05102", 2022, "Pope et al., Efficiently Scaling Transformer Inference"
)
STREAMING_PROCESSOR = Reference(
    "Abts et al., A Software-defined Tensor Streaming Multiprocessor for Large-scale Machine "
    "Learning",
    2022,
    "https://doi.org/10.1145/3470496.3527405",
)
DRAM_PIM = _paper("2511.12286", 2025, "Kiyawat et al., Sangam: Chiplet-Based DRAM-PIM Accelerator")
RERAM_SEARCH = _paper(
    "2510.25278",
    2025,
    "Shao et al., DIRC-RAG: Accelerating Edge RAG with Digital In-ReRAM Computation",
)
VLLM_ARGUMENTS = Reference(
    "vLLM documentation: engine arguments",
    2025,
    "https://docs.vllm.ai/en/v0.8.5/serving/engine_args.html",
)
UNIFIED_MEMORY = Reference(
    "AMD, HIP documentation: unified memory management",
    2025,
    "https://rocm.docs.amd.com/projects/HIP/en/latest/how-to/hip_runtime_api/memory_management/"
    "unified_memory.html",
)
