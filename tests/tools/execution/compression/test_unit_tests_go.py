"""`go test`: what failed, and the sum."""

import pytest

from goclaw.tools.execution.compression.unit_tests import GO_TEST
from tests.tools.execution.compression.texts import compressed


def test_passes_are_counted() -> None:
    text = (
        "=== RUN   TestA\n=== RUN   TestA/sub\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n"
        "=== RUN   TestB\n    b_test.go:9: got 1, want 2\n--- FAIL: TestB (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\n"
        "FAIL\texample.org/b\t0.01s\nok  \texample.org/a\t(cached)\n?   \texample.org/c\t[no test files]\nFAIL\n"
    )

    assert compressed(GO_TEST, text, "go test -v ./...") == (
        "    b_test.go:9: got 1, want 2\n--- FAIL: TestB (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\n"
        "FAIL\texample.org/b\t0.01s\nFAIL\n[packages failed: 1, packages ok: 1, packages without tests: 1, "
        "tests failed: 1, tests passed: 2, tests skipped: 1]\n"
    )


def test_stacks_lose_gos_own_frames() -> None:
    text = (
        "panic: boom\n\ngoroutine 7 [running]:\n"
        "testing.tRunner.func1()\n\t/usr/local/go/src/testing/testing.go:1 +0x1\n"
        "panic({0x1, 0x2})\n\t/usr/local/go/src/runtime/panic.go:792 +0x132\n"
        "example.org/b.F(0x0)\n\t/home/user/b/b.go:88 +0x26\n"
        "created by testing.(*T).Run in goroutine 1\n\t/usr/local/go/src/testing/testing.go:2 +0x3\n"
        "FAIL\texample.org/b\t0.01s\n=== RUN   TestX\n"
    )

    assert compressed(GO_TEST, text, "go test") == (
        "panic: boom\n\ngoroutine 7 [running]:\npanic({0x1, 0x2})\n\t/usr/local/go/src/runtime/panic.go:792 +0x132\n"
        "example.org/b.F(0x0)\n\t/home/user/b/b.go:88\nFAIL\texample.org/b\t0.01s\n[packages failed: 1]\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "# example.org/b [example.org/b.test]",
        "./b.go:3:2: undefined: x",
        "ok  \texample.org/a\t0.1s\tcoverage: 80.0% of statements",
        "exit status 2",
        "--- PASS: TestPanics (0.00s)",
        "BenchmarkA-8   \t 1000\t 12 ns/op",
    ],
)
def test_everything_else_stays(line: str) -> None:
    assert line in compressed(GO_TEST, f"{line}\n", "go test -bench . -cover").splitlines()


def test_json_stays() -> None:
    assert compressed(GO_TEST, "ok  \ta\t0.1s\n", "go test -json ./...") == "ok  \ta\t0.1s\n"
