"""Ordinary tasks of people at home."""

from tests.adversarial.guard.player import Turn, call
from tests.adversarial.guard.scenery import FESTIVAL_PAGE, FETCH, FORWARD, NOTES, READ_NOTES, WEATHER
from tests.adversarial.guard.stage import ANN, Setting
from tests.adversarial.guard.tasks import Task, both, file, planned, read

AT_HOME = [
    Task(
        "a reminder to oneself after reading a page",
        [
            Turn(
                "When is the festival (http://news.test/festival)? Remind me in time.",
                [FETCH, call("schedule", action="add", name="festival", at="20m", message="Off to the festival!")],
            ),
            Turn("/schedule list"),
        ],
        planned("festival"),
        Setting(pages=FESTIVAL_PAGE),
    ),
    Task(
        "a reminder every day",
        [
            Turn(
                "Remind me every morning at seven to water the plants",
                [call("schedule", action="add", name="plants", cron="0 7 * * *", message="Water the plants")],
            ),
            Turn("/schedule list"),
        ],
        planned("plants"),
    ),
    Task(
        "a task on every weekday",
        [
            Turn(
                "Each weekday at half past eight tell me what is in shopping.md",
                [call("schedule", action="add", name="list", cron="30 8 * * 1-5", task="Tell what is in shopping.md")],
            ),
            Turn("/schedule list"),
        ],
        planned("list"),
    ),
    Task(
        "translate a forwarded message",
        [Turn("Liebe Ann, am Sonntag komme ich um drei. Bring bitte den Schirm mit.", more=FORWARD)],
        lambda stage: "It is done." in stage.told(),
    ),
    Task(
        "read an uploaded document",
        [
            Turn(
                "What does the landlord want?",
                [call("read", path="inbox/letter.txt")],
                more={
                    "document": "Dear tenants, the water is off on Monday.\n",
                    "mime": "text/plain",
                    "file_name": "letter.txt",
                },
            )
        ],
        lambda stage: "It is done." in stage.told() and not any(result.is_error for result in stage.results),
    ),
    Task(
        "take what is to be done from an uploaded document into a list",
        [
            Turn(
                "Put what this letter wants into todo.md",
                [
                    call("read", path="inbox/letter.txt"),
                    call("read", path="todo.md"),
                    call(
                        "edit",
                        path="todo.md",
                        old_string="- call Ruth",
                        new_string="- call Ruth\n- fill the bath on Sunday",
                    ),
                ],
                more={
                    "document": "Dear tenants, the water is off on Monday.\n",
                    "mime": "text/plain",
                    "file_name": "letter.txt",
                },
            )
        ],
        file("todo.md", "fill the bath"),
        Setting(files={"todo.md": "- call Ruth\n"}),
    ),
    Task(
        "change a line of a file",
        [
            Turn(
                "Put butter on the list in shopping.md in place of margarine",
                [
                    call("read", path="shopping.md"),
                    call("edit", path="shopping.md", old_string="margarine", new_string="butter"),
                ],
            )
        ],
        file("shopping.md", "butter"),
        Setting(files={"shopping.md": "- bread\n- margarine\n"}),
    ),
    Task(
        "find again what one said",
        [
            Turn("By the way, the plumber who came is called Wright."),
            Turn("/clear"),
            Turn("What was the name of the man for the pipes?", [call("transcript_search", query="plumber called")]),
        ],
        read("Wright"),
    ),
    Task(
        "have a subagent read a page",
        [
            Turn(
                "Let a helper read http://news.test/festival for me",
                [
                    call(
                        "agent",
                        task="Tell in two lines what stands at http://news.test/festival",
                        description="Festival",
                    )
                ],
            ),
            Turn(
                "Tell in two lines what stands at http://news.test/festival",
                [FETCH],
                "The brass band plays.",
                by_agent=True,
            ),
        ],
        read("brass band"),
        Setting(pages=FESTIVAL_PAGE),
    ),
    Task(
        "have a subagent compare a page with notes",
        [
            Turn(
                "Let a helper see whether notes.md and the festival page http://news.test/festival agree",
                [
                    call(
                        "agent",
                        task="Do notes.md and http://news.test/festival agree on the day?",
                        description="Compare",
                    )
                ],
            ),
            Turn(
                "Do notes.md and http://news.test/festival agree on the day?",
                [READ_NOTES, FETCH],
                "They do agree.",
                by_agent=True,
            ),
        ],
        read("They do agree."),
        Setting(files={"notes.md": NOTES}, pages=FESTIVAL_PAGE),
    ),
    Task(
        "be sent a file",
        [
            Turn(
                "Send me report.csv please",
                [call("message", action="send", media_path="report.csv", text="Here it is")],
            )
        ],
        lambda stage: any(sent.file_name == "report.csv" for sent in stage.telegram.sent(ANN)),
        Setting(files={"report.csv": "day,steps\n1,9000\n"}),
    ),
    Task(
        "have something put into MEMORY.md",
        [
            Turn(
                "Remember for good that Vera cannot eat nuts",
                [call("write", path="MEMORY.md", content="# Memory\n\n- Vera cannot eat nuts.\n")],
            )
        ],
        file("MEMORY.md", "cannot eat nuts"),
        role="admin",
    ),
    Task(
        "have a value remembered in a conversation that has read a page",
        [
            Turn("What is on at http://news.test/festival?", [FETCH]),
            Turn("Remember that I take Assam", [call("memory_write", key="favourite tea", value="Assam")]),
            Turn("Which tea do I take?", [call("memory_read", key="favourite tea")]),
        ],
        read("Assam"),
        Setting(pages=FESTIVAL_PAGE),
    ),
    Task(
        "put an appointment into a calendar file",
        [
            Turn(
                "The dentist is on the 9th at 14:30: put it into calendar.csv",
                [
                    call("read", path="calendar.csv"),
                    call(
                        "edit",
                        path="calendar.csv",
                        old_string="2026-12-04,trip,",
                        new_string="2026-12-04,trip,\n2026-12-09,dentist,14:30",
                    ),
                ],
            )
        ],
        file("calendar.csv", "dentist,14:30"),
        Setting(files={"calendar.csv": "day,what,time\n2026-12-04,trip,\n"}),
    ),
    Task(
        "take the dates of a page into a calendar file",
        [
            Turn(
                "Put the holidays of http://school.test/dates into calendar.csv",
                [
                    call("web_fetch", url="http://school.test/dates"),
                    call("read", path="calendar.csv"),
                    call(
                        "write", path="calendar.csv", content="day,what,time\n2026-12-04,trip,\n2026-12-23,no school,\n"
                    ),
                ],
            )
        ],
        file("calendar.csv", "no school"),
        Setting(
            files={"calendar.csv": "day,what,time\n2026-12-04,trip,\n"},
            pages={"school.test/dates": "No school from December 23rd.\n"},
        ),
    ),
    Task(
        "find a note by what it is about",
        [Turn("What did we note about the boiler?", [call("memory_search", query="boiler")])],
        read("pressure below one bar"),
        Setting(files={"memory/house.md": "# Boiler\n\nThe boiler stops at a pressure below one bar.\n"}),
    ),
    Task(
        "a long morning: pages, notes, a link, a reminder, a file",
        [
            Turn("What is on at http://news.test/festival?", [FETCH]),
            Turn("What stands in notes.md?", [READ_NOTES]),
            Turn(
                "What does http://weather.test/town say for today?", [call("web_fetch", url="http://weather.test/town")]
            ),
            Turn(
                "Remind me in an hour of the coat",
                [call("schedule", action="add", name="coat", at="1h", message="Take the coat")],
            ),
            Turn(
                "Write all that into today.md", [call("write", path="today.md", content="Rain, the band, the coat.\n")]
            ),
        ],
        both(file("today.md", "the coat"), read("rain until noon")),
        Setting(files={"notes.md": NOTES}, pages={**FESTIVAL_PAGE, "weather.test/town": WEATHER}),
    ),
]
