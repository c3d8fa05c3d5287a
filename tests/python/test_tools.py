"""Every tool through the official Python client, which opens in the modern era."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from mcp import Client, StdioServerParameters

HERE = Path(__file__).resolve().parent
CALLS = json.loads((HERE / "../fixtures/calls.json").read_text(encoding="utf-8"))
PREFLIGHT = HERE / "../node/node_modules/.bin/preflight"


def binary(name):
    """Returns the path of a built binary."""
    directory = os.environ.get("GROUNDING_BIN_DIR")
    if not directory:
        raise RuntimeError("GROUNDING_BIN_DIR is not set: it names the directory of the built binaries; run tests/run")
    return str(Path(directory) / name)


def fill(value, bindings):
    """Replaces `<name>` by what is bound to it, and `<12 x>` by the letter x twelve times."""
    if isinstance(value, list):
        return [fill(item, bindings) for item in value]
    if isinstance(value, dict):
        return {key: fill(field, bindings) for key, field in value.items()}
    if not isinstance(value, str):
        return value
    repeated = re.fullmatch(r"<(\d+) x>", value)
    if repeated:
        return "x" * int(repeated[1])
    for name, bound in bindings.items():
        value = value.replace(f"<{name}>", bound)
    return value


def follow(value, pointer):
    """Follows a JSON pointer without escapes."""
    for key in pointer.split("/")[1:]:
        value = value[key]
    return value


class ToolsTest(unittest.TestCase):
    """The recorded calls, in both protocol eras."""

    def setUp(self):
        # TMPDIR may be long, and a socket path has 100 bytes.
        self.home = Path(tempfile.mkdtemp(prefix="p", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), "SOLUTION_PREFLIGHT_BIN": str(PREFLIGHT)}
        self.addCleanup(self.run_program, binary("groundingctl"), "stop", check=False)

    def run_program(self, *command, directory=None, check=True):
        """Runs a program in the private home."""
        directory = directory or self.home
        subprocess.run(command, cwd=directory, env=self.variables, check=check, capture_output=True)

    def repository(self):
        """Makes a git repository with one commit on a feature branch."""
        path = self.home / "repo"
        path.mkdir()
        (path / "README.md").write_text("A repository under test.\n", encoding="utf-8")
        for command in (
            "init --quiet --initial-branch=feature/work",
            "config user.name Test",
            "config user.email test@example.com",
            "add --all",
            "commit --quiet --message docs:begin",
        ):
            self.run_program("git", *command.split(), directory=path)
        return str(path)

    async def call_everything(self, mode, version):
        """Makes every recorded call, the good ones and the bad ones."""
        server = StdioServerParameters(command=binary("grounding-mcp"), env=self.variables, cwd=self.home)
        bindings = {"repo": self.repository()}
        called = set()
        async with Client(server, mode=mode) as client:
            self.assertEqual(client.protocol_version, version)
            self.assertEqual(len((await client.list_tools()).tools), 20)
            for call in CALLS["calls"]:
                result = await client.call_tool(call["tool"], fill(call["arguments"], bindings))
                text = result.content[0].text
                self.assertFalse(result.is_error, f"{call}: {text}")
                self.assertEqual(json.loads(text), result.structured_content)
                for name, pointer in call.get("keep", {}).items():
                    bindings[name] = follow(result.structured_content, pointer)
                called.add(call["tool"])
            for call in CALLS["refusals"]:
                if isinstance(call["arguments"], list):
                    continue  # The client itself refuses arguments that are no object.
                result = await client.call_tool(call["tool"], fill(call["arguments"], bindings))
                text = result.content[0].text
                self.assertTrue(result.is_error, f"{call}: {text}")
                for word in [call["tool"], *call["says"]]:
                    self.assertIn(word, text)
            self.assertEqual(len((await client.list_tools()).tools), 20)
        self.assertEqual(len(called), 20)

    def test_every_tool_in_the_modern_era(self):
        """The client's own choice: it opens with server/discover."""
        asyncio.run(self.call_everything("auto", "2026-07-28"))

    def test_every_tool_in_the_legacy_era(self):
        """Opens with initialize."""
        asyncio.run(self.call_everything("legacy", "2025-11-25"))


if __name__ == "__main__":
    unittest.main()
