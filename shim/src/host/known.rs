//! The hosts: how each is called, how it is found, and which file its servers are in.
//!
//! Looks whether files and programs exist, and never reads or writes one.

use std::path::{Path, PathBuf};

use grounding_proto::environment::{Environment, EnvironmentError};
use serde::{Deserialize, Serialize};

use super::entry::NAME;
use super::format::Format;
use super::json::{Place, Shape};

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
    /// opencode.
    Opencode,
    /// Gemini CLI.
    Gemini,
    /// Visual Studio Code.
    Vscode,
}

/// A file that a host reads its servers from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The host.
    pub host: Host,
    /// The file; it may be absent.
    pub file: PathBuf,
    /// Its format.
    pub format: Format,
}

impl Host {
    /// All of them, in the order they are told of.
    pub const ALL: [Self; 6] = [Self::Claude, Self::Codex, Self::Cursor, Self::Opencode, Self::Gemini, Self::Vscode];

    /// Returns the name people know it by.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Opencode => "opencode",
            Self::Gemini => "Gemini CLI",
            Self::Vscode => "VS Code",
        }
    }

    /// Returns the program that starts it.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Vscode => "code",
        }
    }

    /// Returns the file of the user's servers.
    ///
    /// # Errors
    /// When there is no home directory, or a variable that moves the file is relative.
    pub fn site(self, environment: &Environment) -> Result<Site, EnvironmentError> {
        let home = environment.home()?;
        let config = || Ok(environment.absolute("XDG_CONFIG_HOME")?.unwrap_or_else(|| home.join(".config")));
        let file = match self {
            Self::Claude => {
                let directory = environment.absolute("CLAUDE_CONFIG_DIR")?;
                directory.as_deref().unwrap_or(home).join(".claude.json")
            }
            Self::Codex => {
                let directory = environment.absolute("CODEX_HOME")?.unwrap_or_else(|| home.join(".codex"));
                directory.join("config.toml")
            }
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::Opencode => {
                let directory = config()?.join("opencode");
                let names = ["opencode.json", "opencode.jsonc"].map(|name| directory.join(name));
                let [json, _] = &names;
                names.iter().find(|path| path.symlink_metadata().is_ok()).unwrap_or(json).clone()
            }
            Self::Gemini => home.join(".gemini/settings.json"),
            Self::Vscode => {
                let support =
                    if cfg!(target_os = "macos") { home.join("Library/Application Support") } else { config()? };
                support.join("Code/User/mcp.json")
            }
        };
        Ok(Site { host: self, file, format: self.format() })
    }

    /// Returns the format of its file, which for Claude Code is that of a project's file, too.
    #[must_use]
    pub fn format(self) -> Format {
        let json = |servers, shape| Format::Json(Place { servers, shape });
        match self {
            Self::Claude => json("mcpServers", Shape::Stdio),
            Self::Codex => Format::Codex,
            Self::Cursor | Self::Gemini => json("mcpServers", Shape::Command),
            Self::Opencode => json("mcp", Shape::Local),
            Self::Vscode => json("servers", Shape::Stdio),
        }
    }

    /// Returns the file of a project's servers, which Claude Code reads.
    #[must_use]
    pub fn project_site(directory: &Path) -> Site {
        Site { host: Self::Claude, file: directory.join(".mcp.json"), format: Self::Claude.format() }
    }

    /// Returns whether the user has it: its program is on PATH, or its file or directory is there.
    #[must_use]
    pub fn is_found(self, environment: &Environment, site: &Site) -> bool {
        let is_there = match self {
            // Its directory is the home itself.
            Self::Claude => site.file.exists(),
            _ => site.file.parent().is_some_and(Path::is_dir),
        };
        is_there || self.executable(environment).is_some()
    }

    /// Returns its program on PATH.
    #[must_use]
    pub fn executable(self, environment: &Environment) -> Option<PathBuf> {
        environment.find_program(self.program())
    }

    /// Returns the arguments, without the server's path at their end, with which its program adds our server for the
    /// user; nothing when it has no such command, or one that asks questions.
    #[must_use]
    pub fn adding(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Claude => Some(&["mcp", "add", "-s", "user", NAME, "--"]),
            Self::Codex => Some(&["mcp", "add", NAME, "--"]),
            _ => None,
        }
    }

    /// Returns the arguments with which its program removes our server for the user; nothing when its file is better
    /// edited, because the host does not write it while it runs.
    #[must_use]
    pub fn removing(self) -> Option<&'static [&'static str]> {
        (self == Self::Claude).then_some(&["mcp", "remove", "-s", "user", NAME])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::of_variables(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn variables_move_the_files() {
        let moved = environment(&[
            ("HOME", "/h"),
            ("CLAUDE_CONFIG_DIR", "/c"),
            ("CODEX_HOME", "/x"),
            ("XDG_CONFIG_HOME", "/g"),
        ]);
        let plain = environment(&[("HOME", "/h")]);
        let file = |host: Host, environment: &Environment| host.site(environment).unwrap().file;
        for (host, default, elsewhere) in [
            (Host::Claude, "/h/.claude.json", "/c/.claude.json"),
            (Host::Codex, "/h/.codex/config.toml", "/x/config.toml"),
            (Host::Cursor, "/h/.cursor/mcp.json", "/h/.cursor/mcp.json"),
            (Host::Opencode, "/h/.config/opencode/opencode.json", "/g/opencode/opencode.json"),
            (Host::Gemini, "/h/.gemini/settings.json", "/h/.gemini/settings.json"),
        ] {
            assert_eq!(file(host, &plain), Path::new(default));
            assert_eq!(file(host, &moved), Path::new(elsewhere));
        }
        let relative = environment(&[("HOME", "/h"), ("CODEX_HOME", "x")]);
        assert!(Host::Codex.site(&relative).unwrap_err().to_string().contains("CODEX_HOME"));
    }
}
