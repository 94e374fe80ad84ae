"""What each run is asked, what its folder holds, and what the model answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"


@dataclass(frozen=True)
class Scenario:
    """One run."""

    name: str
    task: str
    files: dict[str, str]
    replies: list[dict[str, Any]]
    agent: dict[str, Any] = field(default_factory=dict)
    timeout: int = 20
    interrupt_at: int | None = None
    """Stop the agent with Ctrl-C while it runs the command of this reply (1-based)."""


def say(text: str, *commands: str) -> dict[str, Any]:
    """A reply with one tool call per command."""
    return {"say": text, "calls": [{"command": command} for command in commands]}


SLUG = {
    "README.md": "# slugs\n\nTurns titles into names for URLs.\n",
    "slugs/__init__.py": "from slugs.slug import slugify\n",
    "slugs/slug.py": '''"""Names for URLs."""

import re


def slugify(title, max_length=40):
    """Lower case, words joined by single hyphens, at most max_length characters."""
    words = re.sub(r"[^a-z0-9]", "-", title.lower())
    return words[:max_length]
''',
    "tests/__init__.py": "",
    "tests/test_slug.py": """import unittest

from slugs import slugify


class SlugTest(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(slugify("Hello"), "hello")

    def test_spaces_make_one_hyphen(self):
        self.assertEqual(slugify("Hello,  World!"), "hello-world")

    def test_cut_never_ends_in_a_hyphen(self):
        self.assertEqual(slugify("alpha beta gamma", max_length=11), "alpha-beta")


if __name__ == "__main__":
    unittest.main()
""",
}

REPAIR = Scenario(
    name="repair-slugify",
    task="slugify('Hello,  World!') returns 'hello---world-'. Several separators in a row must "
    "become one hyphen, none may be left at either end, and a cut must not leave one either.\n\n"
    "The tests in tests/ describe it. Do not change them.",
    files=SLUG,
    replies=[
        say("I will look at what is here first.", "git log --oneline && ls -R . | head -40"),
        say("The module and its tests are small; I read both.", "cat slugs/slug.py"),
        say("Now the tests, to see what they ask for.", "cat tests/test_slug.py"),
        say("Let me see which of them fail today.", "python3 -m unittest -v 2>&1 | tail -40"),
        say(
            "Two of three fail. Each character is replaced by itself, so runs of separators stay; "
            "and nothing trims the ends. Let me confirm that with the title from the report.",
            "python3 -c \"from slugs import slugify; print(repr(slugify('Hello,  World!')))\"",
        ),
        say(
            "Confirmed. I replace runs at once and strip hyphens, before and after the cut.",
            """python3 - <<'EOF'
import pathlib
path = pathlib.Path("slugs/slug.py")
text = path.read_text()
text = text.replace(
    '''    words = re.sub(r"[^a-z0-9]", "-", title.lower())
    return words[:max_length]''',
    '''    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:max_length].strip("-")''',
)
path.write_text(text)
EOF
git diff --stat""",
        ),
        say("Run the tests again.", "python3 -m unittest -v 2>&1 | tail -20"),
        say(
            "All pass. The report says nothing of letters such as é; they are dropped today. I "
            "check a few odd titles so that at least nothing breaks.",
            """python3 - <<'EOF'
from slugs import slugify
for title in ["", "---", "Café Zürich", "naïve 日本語 😀", "a" * 60, "x" * 39 + " y"]:
    print(repr(title[:20]), "->", repr(slugify(title)))
EOF""",
        ),
        say(
            "'Café' becomes 'caf': that is how it was before and not part of this task. I leave "
            "it, and mention it. A last look at the change.",
            "git diff",
        ),
        say("The change is small and complete; I submit it.", SUBMIT),
    ],
)

STATS = {
    "stats.py": '''"""Small statistics."""


def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def spread(values):
    return max(values) - min(values)
''',
    "test_stats.py": """import unittest

import stats


class StatsTest(unittest.TestCase):
    def test_mean_of_nothing_is_none(self):
        self.assertIsNone(stats.mean([]))

    def test_median_of_an_even_count(self):
        self.assertEqual(stats.median([1, 2, 3, 4]), 2.5)

    def test_spread(self):
        self.assertEqual(stats.spread([4, 1, 9]), 8)
""",
    "data/sample.txt": "\n".join(str((number * 37) % 101) for number in range(400)) + "\n",
}

PARALLEL = Scenario(
    name="parallel-survey",
    task="Two functions in stats.py are wrong: mean([]) raises, and median of an even count "
    "returns one of the middle values. Fix both, and say what the median of data/sample.txt is.",
    files=STATS,
    replies=[
        say(
            "I can look at several things at once.",
            "cat stats.py",
            "cat test_stats.py",
            "wc -l data/sample.txt",
        ),
        say(
            "And what fails now, beside the Python in use.",
            "python3 -m unittest 2>&1 | tail -25",
            "python3 --version",
            "test -f setup.cfg && cat setup.cfg",
        ),
        say(
            "Both repairs are independent, so I make them together.",
            r"sed -i 's|^    return sum(values) / len(values)|    return sum(values) / len(values) "
            r"if values else None|' stats.py",
            """python3 - <<'EOF'
import pathlib
path = pathlib.Path("stats.py")
text = path.read_text()
text = text.replace(
    "    return ordered[len(ordered) // 2]",
    "    half = len(ordered) // 2\\n"
    "    if len(ordered) % 2:\\n"
    "        return ordered[half]\\n"
    "    return (ordered[half - 1] + ordered[half]) / 2",
)
path.write_text(text)
EOF""",
        ),
        say(
            "Test, and answer the question about the data.",
            "python3 -m unittest 2>&1 | tail -5",
            'python3 -c "import stats; print(stats.median([int(x) for x in open('
            "'data/sample.txt')])); print(stats.mean([]))\"",
        ),
        say(
            "The file itself once, to be sure that nothing in it was misread: it is long.",
            "cat data/sample.txt; seq 1 2500",
        ),
        say("Done: the median of the sample is 50.0.", SUBMIT),
    ],
)

FORMAT_ERROR = Scenario(
    name="format-error",
    task="Write hello.sh, which prints 'hello' and its first argument, and make it executable.",
    files={"notes.txt": "Scripts start with #!/bin/sh here.\n"},
    replies=[
        say("First the notes.", "cat notes.txt"),
        {"say": "I know what to write: a script of two lines that prints hello and $1."},
        {
            "say": "With the tool this time.",
            "calls": ['{"command": "printf \'#!/bin/sh\\necho hello \\"$1\\"\\n\' > hello.sh"'],
        },
        say(
            "The arguments were cut off; again, complete.",
            "printf '#!/bin/sh\\necho hello \"$1\"\\n' > hello.sh && chmod +x hello.sh && ls -l",
        ),
        say("Try it.", "./hello.sh world && ./hello.sh"),
        say("It works.", "git add -N . && " + SUBMIT),
    ],
)

LIMITS = Scenario(
    name="limits-exceeded",
    task="Find out why word_count('a  b') is 3 in words.py and fix it.",
    files={
        "words.py": "def word_count(text):\n    return len(text.split(' '))\n",
        "test_words.py": "import words\n\nassert words.word_count('a  b') == 2\n",
    },
    agent={"step_limit": 4},
    replies=[
        say("Where is it?", "ls"),
        say("Read it.", "cat words.py"),
        say("Try it.", "python3 test_words.py"),
        say(
            "split(' ') keeps empty strings; split() does not.",
            "sed -i \"s/split(' ')/split()/\" words.py",
        ),
        say("Now the test.", "python3 test_words.py && echo fine"),
    ],
)

TIMEOUT = Scenario(
    name="command-timeout",
    task="serve.py should print its port and stop. It seems to hang. Find out why.",
    files={
        "serve.py": "import time\n\n\ndef main():\n    print('port 8000', flush=True)\n"
        "    while True:\n        time.sleep(1)\n\n\nmain()\n"
    },
    timeout=3,
    replies=[
        say("Run it and see.", "python3 serve.py"),
        say("It printed and never came back. The reason is in the file.", "cat serve.py"),
        say(
            "An endless loop after the print. The task says it should stop, so the loop goes.",
            "sed -i '/while True/,+1d' serve.py && cat serve.py",
        ),
        say("Again, and with a limit of my own this time.", "timeout 2 python3 serve.py; echo $?"),
        say("It stops by itself now.", SUBMIT),
    ],
)

INTERRUPTED = Scenario(
    name="interrupted",
    task="Rebuild the index with ./rebuild.sh and check that index.txt lists every file in data/.",
    files={
        "rebuild.sh": "#!/bin/sh\necho rebuilding\ntouch .started\nsleep 15\nls data > index.txt\n",
        "data/one.txt": "1\n",
        "data/two.txt": "2\n",
    },
    interrupt_at=2,
    replies=[
        say("What does the script do?", "cat rebuild.sh && ls data"),
        say("It is safe to run: it only writes index.txt.", "sh rebuild.sh"),
    ],
)

ALL = (REPAIR, PARALLEL, FORMAT_ERROR, LIMITS, TIMEOUT, INTERRUPTED)
