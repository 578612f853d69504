"""The decoder over bytes that the tests measure, and its held-out text."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    pass

BYTE_MODEL = Path(__file__).parent / "byte_model"


@pytest.fixture(scope="session")
def byte_model():
    pytest.importorskip("safetensors")
    torch = pytest.importorskip("torch")
    from codesign.models.quantization.model_checkpoint import load_checkpoint

    torch.set_num_threads(1)
    return load_checkpoint(BYTE_MODEL)


@pytest.fixture(scope="session")
def held_out():
    """A module of the standard library that the model has not seen."""
    return Path(argparse.__file__)


@pytest.fixture(scope="session")
def sequences(byte_model, held_out):
    from codesign.models.quantization.measurement import split_text
    from codesign.models.quantization.model_checkpoint import read_tokens

    return split_text(read_tokens(BYTE_MODEL, held_out), 128, 16, 12)
