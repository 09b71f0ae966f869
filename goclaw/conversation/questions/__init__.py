"""Questions to people and approvals of tool calls.

A turn that asks (an approval, `ask_user`) parks: the question is a step on disk before it is shown, and the turn's time
stands still. `/approve`, `/deny`, a key in the terminal or, for `ask_user`, the person's next message answers that step
and does not enter the queue. After a restart the same code runs to the same step and waits again. Open questions are
read from the disk before a channel opens, because an answer may arrive before its turn runs. `turn_questions`
asks for the tools of a turn; a stored rule answers before a person does (`goclaw.tools.approval`).

`prompt_files` asks admins about changed prompt files, which belong to no turn; they are answered in the same ways.

`question_messages` words questions for chats, delivers them and parses answers. A `Clarifier` asks a person for
required arguments that a model left out.
"""
