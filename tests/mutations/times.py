"""Bugs in what happens at a time: schedules, reminders, heartbeat, webhooks."""

from tests.mutations.bug import Bug, bug

_SCHEDULER = "goclaw/schedules/scheduler.py"
_RUNS = "tests/schedules/test_scheduler.py"
_CRASH = "tests/schedules/test_scheduler_crash.py"
_UNATTENDED = "goclaw/approvals/approvals.py"

BUGS: list[Bug] = [
    bug(
        "a run is recorded after what it starts",
        "kill -9 between the two",
        _SCHEDULER,
        "            await self._submit(inbound, also=(run, self._move(stored, occurrence, identity)))",
        "            await self._submit(inbound)\n"
        "            await self._rows.write(run, self._move(stored, occurrence, identity))",
        f"{_CRASH}::test_a_kill_at_any_write_neither_loses_nor_doubles_a_run",
    ),
    bug(
        "a clock that is set back runs again what has run",
        "an hour that comes twice",
        _SCHEDULER,
        "        fresh = [each for each in times if not await self._rows.has_run(stored.id, each)]",
        "        fresh = times",
        f"{_RUNS}::test_a_clock_that_is_set_back_and_forth_runs_nothing_twice",
    ),
    bug(
        "a clock that was ahead leaves a job in the far future",
        "a machine without a battery for its clock",
        _SCHEDULER,
        "                moments[stored.id] = await self._unused(stored, stored.job.when.after(now)) or stored.next",
        "                moments[stored.id] = stored.next",
        f"{_RUNS}::test_a_clock_that_was_years_ahead_does_not_silence_a_job",
    ),
    bug(
        "a machine that slept is late by its sleep",
        "a laptop whose lid was closed",
        _SCHEDULER,
        "        if self._next is not None and self._clock.now() >= self._next:",
        "        if False:",
        f"{_RUNS}::test_a_machine_that_slept_catches_up_when_it_looks_at_the_clock",
    ),
    bug(
        "a job runs on with rights that its maker lost",
        "a user who was removed",
        _SCHEDULER,
        "        if refusal := self._refusal(stored.job):",
        "        if refusal := '':",
        f"{_RUNS}::test_a_job_whose_maker_lost_the_right_stops_and_says_so",
    ),
    bug(
        "an unattended turn asks a person who is not there",
        "a turn that waits for days",
        "goclaw/turns/agent_services.py",
        "if (unattended := agent_run.root.turn.inbound.unattended) and not unattended.ask:",
        "if (unattended := agent_run.root.turn.inbound.unattended) and unattended.ask:",
        f"{_RUNS}::test_a_call_that_would_ask_is_refused_and_the_person_hears_of_it",
    ),
    bug(
        "two runs of a job overlap",
        "a task that takes longer than its interval",
        "goclaw/schedules/rows.py",
        '    .where(schedules.c.next.is_not(None), schedules.c.next <= bindparam("now"), schedules.c.running == "")',
        '    .where(schedules.c.next.is_not(None), schedules.c.next <= bindparam("now"))',
        f"{_RUNS}::test_two_runs_of_a_job_never_overlap",
    ),
    bug(
        "each failure of a task is reported",
        "a chat full of the same fault",
        _SCHEDULER,
        "        if failures > 1:",
        "        if failures > 1_000:",
        f"{_RUNS}::test_failures_are_reported_once_and_back_off",
    ),
    bug(
        "a time in the gap of spring comes an hour late",
        "datetime takes the offset from before the change",
        "goclaw/schedules/times.py",
        "    return datetime.fromtimestamp(latest, zone)",
        "    return local.astimezone(UTC).astimezone(zone)",
        "tests/schedules/test_times.py::test_a_time_in_the_gap_of_spring_is_the_end_of_the_gap_and_one_in_the_repeated_hour_its_first",
    ),
]
