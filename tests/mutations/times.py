"""Bugs in what happens at a time: schedules, reminders, heartbeat, webhooks."""

from tests.mutations.bug import Bug, bug

_SCHEDULER = "goclaw/schedules/scheduler.py"
_RUNS = "tests/schedules/test_scheduler.py"
_CRASH = "tests/schedules/test_scheduler_crash.py"
_COMMANDS = "tests/gateway/commands/test_schedules.py"
_TOOL = "tests/tools/test_schedule.py"
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
    bug(
        "a redelivered /remind sets a second reminder",
        "a crash between the job and the answer",
        "goclaw/schedules/requests.py",
        "        if known := next((each for each in own if job.origin and each.job.origin == job.origin), None):",
        "        if known := None:",
        f"{_COMMANDS}::test_a_reminder_that_is_redelivered_after_a_crash_is_set_once",
    ),
    bug(
        "what /remind cannot read is refused",
        "a person who writes as people do",
        "goclaw/gateway/commands/schedules.py",
        "    except UnusableTime as error:",
        "    except NoTime as error:",
        f"{_COMMANDS}::test_what_is_no_time_is_a_message_to_the_model",
    ),
    bug(
        "times are read in the machine's zone",
        "a server in another country",
        "goclaw/schedules/requests.py",
        "        return zone_named(user.timezone) if user and user.timezone else machine_zone()",
        "        return machine_zone()",
        f"{_COMMANDS}::test_a_reminder_is_said_with_its_weekday_date_time_and_zone_and_comes_word_for_word",
    ),
    bug(
        "any person acts for any other with --user",
        "an option that the command line has",
        "goclaw/schedules/orders.py",
        "    if not inbound.actor.owner or inbound.actor.behalf:",
        "    if inbound.actor.behalf:",
        f"{_COMMANDS}::test_what_cannot_be_set_is_said_with_the_remedy",
    ),
    bug(
        "a schedule may be sent to any chat",
        "a person who may write to their own chat alone",
        "goclaw/schedules/requests.py",
        "            self.may_send_to(inbound.actor, job.address)",
        "            pass",
        f"{_COMMANDS}::test_a_message_to_another_chat_follows_the_rule_for_these",
    ),
    bug(
        "a person has a task answered by a model that is not configured",
        "another person's money",
        "goclaw/schedules/requests.py",
        "            await self._check_model(inbound.actor, job.task.model)",
        "            pass",
        f"{_COMMANDS}::test_what_cannot_be_set_is_said_with_the_remedy",
    ),
    bug(
        "the command line loses the quotation marks of a text",
        "a message with an apostrophe",
        "goclaw/cli/schedule.py",
        '    command = f"/schedule {shlex.join(words)}"',
        """    command = f"/schedule {' '.join(words)}\"""",
        "tests/cli/test_schedule.py::test_a_schedule_is_added_listed_paused_resumed_and_removed",
    ),
    bug(
        "an order that was refused ends with exit code 0",
        "a script that adds schedules",
        "goclaw/cli/schedule.py",
        "        raise StateError(answer.removeprefix(refusal))",
        "        show(answer)",
        "tests/cli/test_schedule.py::test_what_cannot_be_done_fails_and_says_why",
    ),
    bug(
        "a scheduled turn makes further schedules",
        "a schedule that multiplies",
        "goclaw/schedules/orders.py",
        '    if order.action in ("add", "resume", "run") and unattended and not unattended.ask:',
        '    if order.action in ("resume", "run") and unattended and not unattended.ask:',
        f"{_TOOL}::test_a_scheduled_turn_makes_no_schedules_but_lists_and_removes_them",
    ),
    bug(
        "an admin's agent removes the schedules of others",
        "a model that was talked into it",
        "goclaw/schedules/orders.py",
        "    if order.name not in [each.job.name for each in await schedules.rows.all(actor.key)]:",
        "    if order.name not in [each.job.name for each in await schedules.rows.all()]:",
        f"{_TOOL}::test_an_admins_agent_does_not_reach_the_schedules_of_others",
    ),
    bug(
        "a task for later is as harmless as a reminder",
        "plan mode, and policies that ask for medium risks",
        "goclaw/tools/schedule.py",
        '    acts_later = arguments.task or arguments.action in ("run", "resume")',
        "    acts_later = False",
        f"{_TOOL}::test_a_reminder_is_harmless_a_task_is_not_and_another_chat_asks",
    ),
]
