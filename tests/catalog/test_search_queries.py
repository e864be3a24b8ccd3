"""What people type for an entry, of each kind: abbreviations, brands, cities, slips."""

from __future__ import annotations

import pytest

from service.catalog.search import search
from service.catalog.snapshot import CatalogSnapshot

#: What is typed, and the entry that it finds first, by collection.
QUERIES = {
    "models": """
        llama3 | meta-llama/Meta-Llama-3-8B
        llama3 8b | meta-llama/Meta-Llama-3-8B
        llama 3.1 70b | meta-llama/Llama-3.1-70B
        llama-3.3 | meta-llama/Llama-3.3-70B-Instruct
        llama 2 7b | meta-llama/Llama-2-7b-hf
        llama4 scout | meta-llama/Llama-4-Scout-17B-16E-Instruct
        maverick | meta-llama/Llama-4-Maverick-17B-128E-Instruct
        qwen3 32b | Qwen/Qwen3-32B
        qwen 3 8b | Qwen/Qwen3-8B
        qwen2.5 coder 32b | Qwen/Qwen2.5-Coder-32B-Instruct
        qwen3 30b a3b | Qwen/Qwen3-30B-A3B
        qwen3 next | Qwen/Qwen3-Next-80B-A3B-Instruct
        qwq | Qwen/QwQ-32B
        deepseek r1 | deepseek-ai/DeepSeek-R1
        deepseek v3 | deepseek-ai/DeepSeek-V3
        deepseek v3.2 | deepseek-ai/DeepSeek-V3.2
        r1 distill 70b | deepseek-ai/DeepSeek-R1-Distill-Llama-70B
        mistral 7b | mistralai/Mistral-7B-v0.1
        mixtral | mistralai/Mixtral-8x7B-v0.1
        mixtral 8x22b | mistralai/Mixtral-8x22B-Instruct-v0.1
        mistral large | mistralai/Mistral-Large-4-1T-A52B
        mistral small | mistralai/Mistral-Small-24B-Instruct-2501
        codestral | mistralai/Codestral-22B-v0.1
        gemma 3 27b | google/gemma-3-27b-it
        gemma3 | google/gemma-3-1b-it
        gemma 2 9b | google/gemma-2-9b-it
        phi4 | microsoft/phi-4
        phi 4 mini | microsoft/Phi-4-mini-instruct
        gpt oss 120b | openai/gpt-oss-120b
        gptoss | openai/gpt-oss-20b
        gpt-oss:20b | openai/gpt-oss-20b
        kimi k2 | moonshotai/Kimi-K2-Instruct
        kimi k3 | moonshotai/Kimi-K3
        glm 4.6 | zai-org/GLM-4.6
        glm4.5 air | zai-org/GLM-4.5-Air
        minimax m2 | MiniMaxAI/MiniMax-M2
        nemotron ultra | nvidia/Llama-3_1-Nemotron-Ultra-253B-v1
        nemotron super 49b | nvidia/Llama-3_3-Nemotron-Super-49B-v1
        granite 4 | ibm-granite/granite-4.0-micro
        command r plus | CohereForAI/c4ai-command-r-plus
        falcon 180b | tiiuae/falcon-180B
        bloom | bigscience/bloom
        opt 66b | facebook/opt-66b
        gpt2 | openai-community/gpt2
        gpt-neox | EleutherAI/gpt-neox-20b
        pythia 12b | EleutherAI/pythia-12b
        whisper large | openai/whisper-large-v2
        bge m3 | BAAI/bge-m3
        e5 large | intfloat/e5-large-v2
        bert base | google-bert/bert-base-uncased
        t5 base | google-t5/t5-base
        olmo 2 32b | allenai/OLMo-2-0325-32B-Instruct
        smollm2 | HuggingFaceTB/SmolLM2-1.7B
        tinyllama | TinyLlama/TinyLlama-1.1B-Chat-v1.0
        starcoder2 | bigcode/starcoder2-3b
        yi 34b | 01-ai/Yi-34B
        grok 2 | xai-org/grok-2
        longcat | meituan-longcat/LongCat-Flash-Chat
        ling 1t | inclusionAI/Ling-1T
        llama 70b | meta-llama/Meta-Llama-3-70B
        qwen 72b | Qwen/Qwen-72B
        deepseak r1 | deepseek-ai/DeepSeek-R1
        lama 3 70b | meta-llama/Meta-Llama-3-70B
        mistrall 7b | mistralai/Mistral-7B-v0.1
        gema 3 | google/gemma-3-1b-it
        deepseek-v3.1 | deepseek-ai/DeepSeek-V3.1
        qwen3 coder | Qwen/Qwen3-Coder-480B-A35B-Instruct
        mistral nemo | mistralai/Mistral-Nemo-Instruct-2407
        ministral 3 14b | mistralai/Ministral-3-14B-Instruct-2512
        hermes 4 | NousResearch/Hermes-4-14B
        apertus | swiss-ai/Apertus-v1.1-4B
        exaone | LGAI-EXAONE/EXAONE-4.0-32B
        jamba | ai21labs/Jamba-v0.1
        mamba 2.8b | state-spaces/mamba-2.8b-hf
    """,
    "accelerators": """
        h100 | nvidia-h100-sxm-80gb
        h100 sxm | nvidia-h100-sxm-80gb
        h100 pcie | nvidia-h100-pcie-80gb
        h100 nvl | nvidia-h100-nvl-94gb
        h200 | nvidia-h200-sxm-141gb
        b200 | nvidia-b200-sxm-180gb
        b300 | nvidia-b300-sxm-288gb
        gb200 | nvidia-gb200-186gb
        gb300 | nvidia-gb300-288gb
        a100 40gb | nvidia-a100-sxm-40gb
        a100 80gb pcie | nvidia-a100-pcie-80gb
        a10 | nvidia-a10-24gb
        a10g | nvidia-a10g-24gb
        a6000 | nvidia-rtx-a6000-48gb
        rtx 6000 ada | nvidia-rtx-6000-ada-48gb
        l4 | nvidia-l4-24gb
        l40s | nvidia-l40s-48gb
        t4 | nvidia-t4-16gb
        v100 32gb | nvidia-v100-sxm-32gb
        p40 | nvidia-p40-24gb
        4090 | nvidia-rtx-4090-24gb
        rtx4090 | nvidia-rtx-4090-24gb
        rtx 3090 | nvidia-rtx-3090-24gb
        3090 ti | nvidia-rtx-3090-ti-24gb
        rtx 5090 | nvidia-rtx-5090-32gb
        5070 ti | nvidia-rtx-5070-ti-16gb
        4060 ti 16gb | nvidia-rtx-4060-ti-16gb
        3060 | nvidia-rtx-3060-12gb
        2080ti | nvidia-rtx-2080-ti-11gb
        1080 ti | nvidia-gtx-1080-ti-11gb
        gtx 1660 | nvidia-gtx-1660-6gb
        mi300x | amd-mi300x-192gb
        mi250x | amd-mi250x-128gb
        mi355x | amd-mi355x-288gb
        mi210 | amd-mi210-64gb
        7900 xtx | amd-rx-7900-xtx-24gb
        rx 9070 xt | amd-rx-9070-xt-16gb
        rx 6800 | amd-rx-6800-16gb
        arc b580 | intel-arc-b580-12gb
        gaudi 3 | intel-gaudi3-128gb
        gaudi2 | intel-gaudi2-96gb
        tpu v5e | google-tpu-v5e
        tpu v6e | google-tpu-v6e
        trillium | google-tpu-v6e
        ironwood | google-tpu-v7x
        trainium2 | aws-trainium2
        trn2 | aws-trainium2
        inferentia2 | aws-inferentia2
        m3 ultra 512 | apple-m3-ultra-512gb
        m4 max 128gb | apple-m4-max-128gb
        m2 ultra | apple-m2-ultra-128gb
        macbook pro m4 pro | apple-m4-pro-24gb
        m1 16gb | apple-m1-16gb
        jetson orin | nvidia-jetson-agx-orin-32gb
        orin nano | nvidia-jetson-orin-nano-4gb
        jetson thor | nvidia-jetson-thor-t5000-128gb
        dgx spark | nvidia-gb10-128gb
        gb10 | nvidia-gb10-128gb
        ryzen ai max 395 | amd-ryzen-ai-max-395-128gb
        strix halo | amd-ryzen-ai-max-395-128gb
        epyc 9654 | amd-epyc-9654
        xeon 6980p | intel-xeon-6980p
        graviton4 | aws-graviton4
        ascend 910b | huawei-ascend-910b1-64gb
        groq | groq-lpu-v1
        cerebras | cerebras-wse-3
        h20 | nvidia-h20-141gb
        h800 | nvidia-h800-sxm-80gb
        a800 | nvidia-a800-sxm-80gb
        l20 | nvidia-l20-48gb
        nvidia geforce rtx 4090 | nvidia-rtx-4090-24gb
        Tesla T4 | nvidia-t4-16gb
        NVIDIA A100-SXM4-80GB | nvidia-a100-sxm-80gb
        quadro rtx 8000 | nvidia-quadro-rtx-8000-48gb
        titan v | nvidia-titan-v-12gb
        radeon vii | amd-radeon-vii-16gb
        snapdragon x elite | qualcomm-snapdragon-x-elite-16gb
    """,
    "platforms": """
        dgx h100 | nvidia-dgx-h100
        hgx h100 | nvidia-dgx-h100
        dgx a100 | nvidia-dgx-a100
        dgx b200 | nvidia-dgx-b200
        nvl72 | rack-72
        gb200 nvl72 | nvidia-gb200-nvl72
        mi300x | amd-instinct-platform
        dgx spark | nvidia-dgx-spark
        mac studio | mac-studio
        macbook pro | macbook-pro-14
        macbook air | macbook-air-m2
        mac mini | mac-mini
        jetson orin | jetson-developer-kit
        raspberry pi | raspberry-pi-5
        workstation | workstation
        desktop | desktop
        laptop | laptop
        phone | phone
        iphone | iphone-14-pro
        cpu only | server-cpu
        cpu server | server-cpu
        supermicro | supermicro-ars-211me
        dell xe9680 | dell-xe9680
        framework desktop | framework-desktop
        nuc | gmktec-g3-plus
        mini pc | mini-pc
        tpu | google-tpu-host
        trn2 | aws-trn2-cores
        gaudi 3 | intel-gaudi-server
        hgx b200 | nvidia-dgx-b200
        hgx h200 | nvidia-dgx-h100
        l40s server | server-pcie-8
        rtx 4090 | desktop
        jetson thor | jetson-developer-kit
        DGX-H100 | nvidia-dgx-h100
        dgx h200 | nvidia-dgx-h100
        hgx a100 | nvidia-dgx-a100
        nvidia gb300 nvl72 | nvidia-gb300-nvl72
        mac mini m4 | mac-mini-m4
        mac studio m2 ultra | mac-studio-m2-ultra
        macbook pro 16 | macbook-pro-16
        iphone 14 | iphone-14-pro
        framework 13 | framework-13-ai
        xe9680 | dell-xe9680
        tpu host | google-tpu-host
        trainium 2 | aws-trn2-cores
        inferentia | aws-inf-server
        groq rack | groq-node
        cerebras cs-3 | cerebras-cs-3
        mi300a | amd-mi300a-node
        mi355x | amd-instinct-platform
        lenovo | lenovo-sr665
        desktop cpu | desktop-cpu
        desktop pc | desktop
        pi 5 | raspberry-pi-5
        jetson | jetson-developer-kit
        epyc server | server-cpu
        nvlink workstation | workstation-nvlink
        dual socket server | server-cpu
        gmktec | gmktec-g3-plus
        minisforum | minisforum-ms-r1
        dgx b300 | nvidia-dgx-b300
        spark | nvidia-dgx-spark
        server pcie 8 | server-pcie-8
        Mac-Studio | mac-studio
        gb300 | nvidia-gb300-nvl72
        atlas 800 | huawei-atlas-800
        poweredge | dell-xe9680
        supermikro | supermicro-ars-211me
        mcbook pro | macbook-pro-14
    """,
    "regions": """
        vienna | azure/austriaeast
        chicago | oci/us-chicago-1
        frankfurt | oci/eu-frankfurt-1
        london | oci/uk-london-1
        paris | oci/eu-paris-1
        dublin | aws/eu-west-1
        stockholm | oci/eu-stockholm-1
        tokyo | oci/ap-tokyo-1
        singapore | country/SG
        mumbai | oci/ap-mumbai-1
        sydney | oci/ap-sydney-1
        sao paulo | oci/sa-saopaulo-1
        são paulo | oci/sa-saopaulo-1
        montreal | oci/ca-montreal-1
        toronto | oci/ca-toronto-1
        virginia | state/US-VA
        oregon | state/US-OR
        ohio | state/US-OH
        iowa | state/US-IA
        dallas | gcp/us-south1
        texas | state/US-TX
        zurich | oci/eu-zurich-1
        milan | oci/eu-milan-1
        madrid | oci/eu-madrid-1
        warsaw | ovh/WAW
        helsinki | hetzner/hel1-dc2
        oslo | azure/norwayeast
        amsterdam | oci/eu-amsterdam-1
        brussels | azure/belgiumcentral
        germany | country/DE
        france | country/FR
        sweden | country/SE
        us-east-1 | aws/us-east-1
        us east 1 | aws/us-east-1
        eu-west-1 | aws/eu-west-1
        westeurope | azure/westeurope
        west europe | azure/westeurope
        eastus2 | azure/eastus2
        us-central1 | gcp/us-central1
        europe-west4 | gcp/europe-west4
        eu north 1 | aws/eu-north-1
        california | state/US-CA
        norway | country/NO
        iceland | country/IS
        finland | country/FI
        poland | country/PL
        india | country/IN
        japan | country/JP
        united kingdom | country/GB
        usa | country/US
        hong kong | country/HK
        seoul | oci/ap-seoul-1
        jakarta | alicloud/ap-southeast-5
        bahrain | country/BH
        uae | country/AE
        dubai | oci/me-dubai-1
        tel aviv | gcp/me-west1
        johannesburg | oci/af-johannesburg-1
        cape town | aws/af-south-1
        quebec | state/CA-QC
        ireland | country/IE
        belgium | country/BE
        netherlands | country/NL
        aws frankfurt | aws/eu-central-1
        azure london | azure/uksouth
        gcp tokyo | gcp/asia-northeast1
        oracle ashburn | oci/us-ashburn-1
        swedn | country/SE
        frankfrut | ovh/DE
        amazon ireland | aws/eu-west-1
        google iowa | gcp/us-central1
        helsinky | hetzner/hel1-dc2
        wien | azure/austriaeast
        us-west-2 | aws/us-west-2
        ap-southeast-1 | aws/ap-southeast-1
        eu central 1 | aws/eu-central-1
        northeurope | azure/northeurope
        swedencentral | azure/swedencentral
        osaka | oci/ap-osaka-1
        melbourne | oci/ap-melbourne-1
        vienna austria | azure/austriaeast
        denmark | country/DK
    """,
    "instances": """
        p5.48xlarge | aws/p5.48xlarge
        p5 | aws/p5.4xlarge
        aws p5 | aws/p5.4xlarge
        p4d | aws/p4d.24xlarge
        p4d.24xlarge | aws/p4d.24xlarge
        g5.xlarge | aws/g5.xlarge
        g6e | aws/g6e.xlarge
        inf2 | aws/inf2.xlarge
        trn2 | aws/trn2.3xlarge
        trn1.32xlarge | aws/trn1.32xlarge
        nd h100 v5 | azure/Standard_ND96is_H100_v5
        azure h100 | azure/Standard_NC40ads_H100_v5
        azure a100 | azure/Standard_NC24ads_A100_v4
        standard_nd96isr_h100_v5 | azure/Standard_ND96isr_H100_v5
        nc24ads | azure/Standard_NC24ads_A100_v4
        a3-highgpu-8g | gcp/a3-highgpu-8g
        a3 mega | gcp/a3-megagpu-8g
        a2 ultragpu | gcp/a2-ultragpu-1g
        gcp l4 | gcp/g2-standard-4
        g2-standard-4 | gcp/g2-standard-4
        lambda h100 | lambda/gpu_4x_h100_sxm5
        lambda 8x h100 | lambda/gpu_8x_h100_sxm5
        runpod 4090 | runpod/1x-rtx-4090-pcie-24gb
        runpod h100 | runpod/1x-h100-sxm-80gb
        vast 3090 | vast/1x-rtx-3090-pcie-24gb
        vast 4090 | vast/1x-RTX_4090-32-65536
        coreweave h100 | coreweave/1x-h100-pcie-80gb
        nebius h200 | nebius/gpu-h200-sxm_1gpu-16vcpu-200gb
        scaleway h100 | scaleway/H100-1-80G
        oci h100 | oci/BM.GPU.H100.8
        oracle mi300x | oci/BM.GPU.MI300X.8
        digitalocean mi300x | digitalocean/1x-amd-mi300x-192gb
        verda b200 | verda/1B200.30V
        hyperstack | hyperstack/n3-L40x1
        aws h200 | aws/p5e.48xlarge
        aws b200 | aws/p6-b200.48xlarge
        google b200 | gcp/a4-highgpu-8g
        azure mi300x | azure/Standard_ND96is_MI300X_v5
        8x h100 | lambda/gpu_8x_h100_sxm5
        4x a100 | vast/4x-A100_SXM4-32-65536
        aws l40s | aws/g6e.xlarge
        tpu v5e | gcp/ct5lp-hightpu-1t
        aws inferentia | aws/inf1.xlarge
        g4dn | aws/g4dn.metal
        g4dn.xlarge | aws/g4dn.xlarge
        p3.2xlarge | aws/p3.2xlarge
        bm.gpu.h100.8 | oci/BM.GPU.H100.8
        gpu_8x_h100_sxm5 | lambda/gpu_8x_h100_sxm5
        cudo a6000 | cudo/ice-lake-rtx-a6000_1x2v4gb
        jarvislabs | jarvislabs/1x_L4_28V_124G
        fluidstack | fluidstack/l40-48gb-1
        akash h200 | akash/1x-h200-141gb-marketplace
        amazon p5en | aws/p5en.48xlarge
        p6-b200 | aws/p6-b200.48xlarge
        aws h100 | aws/p5.4xlarge
        p5e | aws/p5e.48xlarge
        g6.12xlarge | aws/g6.12xlarge
        azure v100 | azure/Standard_NC24rs_v3
        gcp h100 | gcp/a3-highgpu-1g
        gcp a100 | gcp/a2-highgpu-1g
        lambda b200 | lambda/gpu_1x_b200_sxm6
        vultr | vultr/1x-gh200-96gb
        runpod a100 | runpod/1x-a100-sxm-80gb
        nvidia a10g aws | aws/g5.2xlarge
        vast rtx 4090 | vast/1x-RTX_4090-32-65536
        amazon trainium | aws/trn1.2xlarge
        lambda gh200 | lambda/gpu_1x_gh200
        ovh v100 | ovh/t1-45
        p4de | aws/p4de.24xlarge
        g5g | aws/g5g.metal
        ND A100 v4 | azure/Standard_ND96ams_A100_v4
        NC T4 | azure/Standard_NC16as_T4_v3
        tpu v6e | gcp/tpu-v6e-1
        tpu v4 | gcp/tpu-v4-8
    """,
}
CASES = [
    (collection, *(part.strip() for part in line.split("|")))
    for collection, table in QUERIES.items()
    for line in table.strip().splitlines()
]


@pytest.mark.parametrize("collection", QUERIES)
def test_there_are_sixty_of_each_kind(collection: str) -> None:
    assert len({typed for kind, typed, _ in CASES if kind == collection}) >= 60


@pytest.mark.parametrize(
    ("collection", "typed", "first"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
def test_the_entry_meant_comes_first(
    packaged_snapshot: CatalogSnapshot, collection: str, typed: str, first: str
) -> None:
    hits = search(packaged_snapshot, typed, (collection,), 3)
    assert hits, typed
    assert hits[0].entry_id == first, [hit.entry_id for hit in hits]


@pytest.mark.parametrize("city", ["vienna", "chicago", "oslo", "dublin", "brussels", "Wien"])
def test_cities_find_the_regions_in_them(packaged_snapshot: CatalogSnapshot, city: str) -> None:
    named = {"Wien": "Vienna"}.get(city, city.capitalize())
    for hit in search(packaged_snapshot, city, ("regions",), 5):
        assert packaged_snapshot.regions[hit.entry_id].document["place"] == named


@pytest.mark.parametrize("typed", ["k80x", "claude", "warp drive", "zz top"])
def test_what_is_not_there_is_not_made_up(packaged_snapshot: CatalogSnapshot, typed: str) -> None:
    assert search(packaged_snapshot, typed, ("models", "accelerators"), 3) == []
