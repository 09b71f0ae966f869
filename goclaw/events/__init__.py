"""What crosses rooms: who speaks, what comes in, what goes out, what happens during a turn, and the gateway's port."""

from goclaw.events.alerts import Alerts, Unheard
from goclaw.events.people import LOCAL, Actor, Address, Decision
from goclaw.events.port import CommandInfo, GatewayPort
from goclaw.events.questions import ALLOW, DENY, GONE, Question, Todo
from goclaw.events.traffic import Acceptance, AcceptKind, Attachment, Choice, Delivery, Inbound, Receipt
from goclaw.events.transcripts import CompactionRecord, Outline, SessionInfo, TranscriptRow
from goclaw.events.turns import (
    MessageStored,
    Notice,
    Outcome,
    QuestionAnswered,
    QuestionAsked,
    SessionForgotten,
    SessionNow,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)

__all__ = [
    "ALLOW",
    "DENY",
    "GONE",
    "LOCAL",
    "AcceptKind",
    "Acceptance",
    "Actor",
    "Address",
    "Alerts",
    "Attachment",
    "Choice",
    "CommandInfo",
    "CompactionRecord",
    "Decision",
    "Delivery",
    "GatewayPort",
    "Inbound",
    "MessageStored",
    "Notice",
    "Outcome",
    "Outline",
    "Question",
    "QuestionAnswered",
    "QuestionAsked",
    "Receipt",
    "SessionForgotten",
    "SessionInfo",
    "SessionNow",
    "StreamRestarted",
    "TextStreamed",
    "ThinkingStreamed",
    "Todo",
    "TodosChanged",
    "ToolFinished",
    "ToolStarted",
    "TranscriptRow",
    "TurnEvent",
    "TurnFinished",
    "TurnStarted",
    "Unheard",
]
