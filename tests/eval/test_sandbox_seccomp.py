"""The filter of system calls for both architectures, whichever this one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.eval.sandbox.seccomp import _CONDITIONAL, _NETWORK, _UNCONDITIONAL, _parse_numbers, build_filter


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_is_whole_and_every_jump_stays_in_it(machine: str) -> None:
    program = build_filter(machine, network=True)
    instructions = [program[place : place + 8] for place in range(0, len(program), 8)]
    assert len(instructions) < 4096
    assert instructions[-1][0] == 0x06
    for place, instruction in enumerate(instructions):
        if instruction[0] & 0x07 == 0x05:
            assert place + 1 + max(instruction[2], instruction[3]) < len(instructions)


@pytest.mark.parametrize(
    ("header", "place"),
    [("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0), ("/usr/include/asm-generic/unistd.h", 1)],
)
def test_the_numbers_are_those_of_the_kernel(header: str, place: int) -> None:
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    kernel_numbers = {}
    for line in Path(header).read_text().splitlines():
        match line.split():
            case ["#define", name, number] if number.isdigit():
                kernel_numbers[name.removeprefix("__NR3264_").removeprefix("__NR_")] = int(number)
    kernel_numbers.setdefault("newfstatat", kernel_numbers.get("fstatat", -1))
    numbers = _parse_numbers(f"{_UNCONDITIONAL},{_NETWORK},{_CONDITIONAL}", place)
    assert len(numbers) > 100
    assert {name: kernel_numbers.get(name) for name in numbers} == numbers
