//! A shim on bare pipes, read without a thread in between, which would cost about as much as what is measured.
//!
//! For measurements: one request at a time, unbounded waits, no look at what is not an answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::{TestEnvironment, binaries};

/// A running shim.
#[derive(Debug)]
pub struct Pipes {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Pipes {
    /// Starts a shim that has not been spoken to.
    #[must_use]
    pub fn spawn(environment: &TestEnvironment) -> Self {
        let mut command = environment.command(binaries::grounding_mcp());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the shim starts");
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self { child, stdin, stdout }
    }

    /// Starts a shim and opens it with `initialize`.
    #[must_use]
    pub fn open(environment: &TestEnvironment) -> Self {
        let mut pipes = Self::spawn(environment);
        pipes.initialize();
        pipes
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens the connection in the era of `initialize`.
    pub fn initialize(&mut self) {
        let client = json!({ "name": "bench", "version": "0" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        self.request("initialize", &params);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.write_all(line.as_bytes()).expect("the shim reads its stdin");
    }

    /// Sends a request and returns the line that comes next.
    pub fn request(&mut self, method: &str, params: &Value) -> String {
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the shim answers");
        line
    }

    /// Calls a tool and returns the line of its result.
    pub fn tool(&mut self, tool: &str, arguments: &Value) -> String {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// Calls a tool that is to answer.
    ///
    /// # Panics
    /// When it refuses.
    pub fn call(&mut self, tool: &str, arguments: &Value) {
        let line = self.tool(tool, arguments);
        assert!(line.contains("structuredContent"), "{tool}: {line}");
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        // A shim that has ended can't be killed, and that is fine; in either case it is waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
