"""Terms of the pages in plain words, by the key that templates name them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Term:
    """A term as it is read, and what it means."""

    name: str
    meaning: str


TERMS: Mapping[str, Term] = MappingProxyType(
    {
        "token": Term(
            "Token",
            "The piece of text that a model reads or writes at once: about three quarters of an "
            "English word.",
        ),
        "first-token": Term(
            "First token",
            "How long a user waits until the answer starts (TTFT). It includes waiting for others "
            "and reading the whole prompt.",
        ),
        "next-token": Term(
            "Each next token",
            "The time between two tokens of an answer (TPOT). At 50 ms, 20 tokens come a second.",
        ),
        "cost": Term(
            "Cost",
            "Rent of whole machines at list prices on demand, all hours of a month (730.5). "
            "Without discounts, taxes, network, storage and staff.",
        ),
        "carbon": Term(
            "Emissions (CO₂e)",
            "Greenhouse gases as the amount of carbon dioxide that warms as much: of the "
            "electricity, by the average of the grid, and a share of manufacturing the hardware.",
        ),
        "memory": Term(
            "Memory used",
            "What one accelerator holds while it serves the requests that you asked for: weights, "
            "KV cache, working memory, engine and driver.",
        ),
        "weights": Term(
            "Weights",
            "The numbers that a model has learned. Smaller formats need less memory and are read "
            "faster, and may cost some quality.",
        ),
        "cache": Term(
            "KV cache",
            "What a model keeps of each token that it has read or written, for as long as the "
            "request runs. It grows with the length and the number of requests.",
        ),
        "activations": Term(
            "Working memory",
            "Intermediate results of the computation (activations), which are dropped right after.",
        ),
        "runtime": Term(
            "Engine and driver",
            "What the serving engine, its libraries and the driver take, whatever the model.",
        ),
        "free": Term(
            "Free",
            "Memory that more requests or longer prompts can still use. The verdict calls it to "
            "spare.",
        ),
        "kept": Term(
            "Kept back",
            "Memory that the engine does not use: vLLM, for example, uses about 90 % by default.",
        ),
        "gb": Term(
            "GB and GiB",
            "Here 1 GB is a billion bytes. Vendors of accelerators often count in GiB, which are "
            "7.4 % larger: a card sold with 80 GB may have 80 GiB, which are 85.9 GB, of which "
            "firmware keeps a little.",
        ),
        "run": Term(
            "The whole run",
            "Time from start to end, with evaluations, checkpoints, failures and restarts.",
        ),
        "tokens": Term(
            "Tokens a second",
            "Tokens that all accelerators together process per second of training.",
        ),
        "interval": Term(
            "Range",
            "Where the measured figure lies in nine cases out of ten, judged by how far published "
            "measurements lay from estimates that did not know them.",
        ),
        "layout": Term(
            "Layout",
            "How a model is divided: among accelerators that share every layer (tensor parallel), "
            "in stages of layers (pipeline), or as whole copies.",
        ),
        "gradients": Term(
            "Gradients",
            "In which direction, and how far, a training step would move each weight.",
        ),
        "optimizer": Term(
            "Optimizer states",
            "What the optimizer remembers of earlier steps, for each weight.",
        ),
        "logits": Term(
            "Logits", "Scores of all tokens of the vocabulary, from which one is taken."
        ),
        "rest": Term("Other", "Buffers of messages and gathered weights."),
        "fitting": Term(
            "Requests that fit at once",
            "How many requests of this length have room for their KV cache. Any more wait for "
            "others to end.",
        ),
        "power": Term(
            "Power of the machines",
            "What accelerators and their servers draw on average under this load, without cooling "
            "and losses of the building.",
        ),
        "manufacturing": Term(
            "Manufacturing of hardware",
            "Making accelerators and servers emits once. Each hour of their service life carries "
            "its share, whether they work or wait.",
        ),
        "operation": Term(
            "Operation",
            "Emissions of the electricity, including the building's, by the grid's yearly average.",
        ),
        "water": Term(
            "Water",
            "Water that evaporates at power stations and in cooling on site.",
        ),
        "waste": Term(
            "Electronic waste",
            "Mass of the hardware, shared out over its hours of service, less what is reused.",
        ),
        "mfu": Term(
            "Share of peak used (MFU)",
            "Arithmetic that the model needs, by what the accelerators could do at most in the "
            "same time.",
        ),
    }
)

#: The term that explains a figure, by what pages call it.
TERM_OF: Mapping[str, str] = MappingProxyType(
    {
        "Weights": "weights",
        "Gradients": "gradients",
        "Optimizer states": "optimizer",
        "KV cache": "cache",
        "Working memory": "activations",
        "Logits": "logits",
        "Engine and driver": "runtime",
        "Total": "memory",
        "Free": "free",
        "Requests that fit at once": "fitting",
        "First token": "first-token",
        "Each next token": "next-token",
        "Power of the machines": "power",
        "Emissions per request": "carbon",
        "Emissions per year": "carbon",
        "Emissions": "carbon",
        "of which electricity": "operation",
        "of which hardware": "manufacturing",
        "Water per request": "water",
        "Water per year": "water",
        "Water": "water",
        "Electronic waste per year": "waste",
        "Electronic waste": "waste",
        "An hour": "cost",
        "Share of peak used (MFU)": "mfu",
        "Tokens, all accelerators": "tokens",
        "Whole run": "run",
    }
)
