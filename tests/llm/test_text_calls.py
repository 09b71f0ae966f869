"""Calls in texts: the forms in which models write them, and what is none."""

import pytest

from goclaw.llm.text_calls import Form, read_block, without_calls

CALL = '{"name": "write", "arguments": {"path": "a", "content": "x"}}'
GIVEN = {"path": "a", "content": "x"}
FORMS = {
    "bare": CALL,
    "doubled braces": f"{{{CALL}}}",
    "template braces": CALL.replace("{", "{{").replace("}", "}}"),
    "fenced": f"```json\n{CALL}\n```",
    "Hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "Hermes, not closed": f"<tool_call>\n{CALL}",
    "tools": f"<tools>{CALL}</tools>",
    "attributes": '<tool_call name="write" arguments=\'{"path": "a", "content": "x"}\'/>',
    "attributes without quotes": '<tool_call name=write arguments={"path": "a", "content": "x"}></tool_call>',
    "Llama, function": '<function=write>{"path": "a", "content": "x"}</function>',
    "Qwen Coder": "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n"
    "<parameter=content>\nx\n</parameter>\n</function>\n</tool_call>",
    "Llama, tag": '<|python_tag|>{"name": "write", "parameters": {"path": "a", "content": "x"}}<|eom_id|>',
    "Mistral, list": f"[TOOL_CALLS][{CALL}]",
    "Mistral, name": '[TOOL_CALLS]write[CALL_ID]abcdefghi[ARGS]{"path": "a", "content": "x"}',
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>write\n```json\n"
    '{"path": "a", "content": "x"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "DeepSeek 3.1": '<｜tool▁call▁begin｜>write<｜tool▁sep｜>{"path": "a", "content": "x"}<｜tool▁call▁end｜>',
    "GLM": "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>content</arg_key>\n"
    "<arg_value>x</arg_value>\n</tool_call>",
    "MiniMax": '<invoke name="write">\n<parameter name="path">a</parameter>\n'
    '<parameter name="content">x</parameter>\n</invoke>',
    "Phi": f"<|tool_call|>[{CALL}]<|/tool_call|>",
    "LM Studio": f"[TOOL_REQUEST]{CALL}[END_TOOL_REQUEST]",
    "OpenAI": '{"function": {"name": "write", "arguments": "{\\"path\\": \\"a\\", \\"content\\": \\"x\\"}"}}',
    "a brace too many": f"{CALL}}}",
    "a brace too many, fenced": f"```json\n{CALL}\n}}\n```",
    "a comma too many": '{"name": "write", "arguments": {"path": "a", "content": "x",},}',
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["", "I will.\n", "The `<tool_call>` mark:\n\n"])
def test_every_form_of_a_call_is_read(form: str, before: str) -> None:
    block = read_block(before + FORMS[form])

    assert block is not None
    assert block.start == len(before)
    assert [(call.name, dict(call.arguments)) for call in block.calls] == [("write", GIVEN)]


def test_several_calls_are_read_in_their_order() -> None:
    block = read_block(f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL.replace('write', 'read')}\n</tool_call>")

    assert block is not None
    assert [call.name for call in block.calls] == ["write", "read"]
    assert block.form is Form.MARKED


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        f"{CALL}\nI wrote it.",
        f"see: {CALL}",
        f"calls = [\n{CALL}\n]",
        f"> {CALL}",
        f"`{CALL}`",
        f"    {CALL}",
        f"````\n```json\n{CALL}\n```\n````",
        f"```js\nrun()\n{CALL}\n```",
        f"<pre>\n{CALL}",
        f"<!--\n{CALL}",
        f"<function=write><parameter=content>\n{CALL}",
        f'{{"name": "write", "arguments": {{"content": "\n{CALL}',
        f'{{"a": {CALL}}}',
        '{"name": "Bob", "age": 3}',
        '{"name": "write"}',
        '{"name": "write", "arguments": {"path": "a", "path": "b"}}',
        '{"name": "write", "arguments": {"path": "a"',
        "[link](http://example.org)",
        f"<tool_call>\nno\n</tool_call>\nwell\n{CALL}",
    ],
)
def test_what_is_no_block_of_its_own_is_no_call(text: str) -> None:
    assert read_block(text) is None


def test_calls_and_their_marks_go_from_a_text_and_the_words_stay() -> None:
    text, calls = without_calls(f"One.\n<tool_call>\n{CALL}\n</tool_call>\nTwo.", 0)

    assert (text.split(), [call.name for call in calls]) == (["One.", "Two."], ["write"])
