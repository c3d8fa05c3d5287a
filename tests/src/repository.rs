//! Real git repositories, made with the real git.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TestEnvironment;
use crate::environment::shown;

/// A git repository below a test's home.
#[derive(Debug)]
pub struct Repository<'a> {
    environment: &'a TestEnvironment,
    path: PathBuf,
}

impl<'a> Repository<'a> {
    /// Makes a repository with one commit on the branch `feature/work`.
    #[must_use]
    pub fn init(environment: &'a TestEnvironment, relative: &str) -> Self {
        let path = environment.path(relative);
        std::fs::create_dir_all(&path).expect("a directory below the home");
        let repository = Self { environment, path };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.git(&["config", "user.name", "Test"]);
        repository.git(&["config", "user.email", "test@example.com"]);
        repository.write("README.md", "A repository under test.\n");
        repository.commit("docs: begin");
        repository.git(&["switch", "--quiet", "--create", "feature/work"]);
        repository
    }

    /// Returns a repository that is there already; commits are made by a test's author.
    #[must_use]
    pub fn of(environment: &'a TestEnvironment, relative: &str) -> Self {
        let repository = Self { environment, path: environment.path(relative) };
        repository.git(&["config", "user.name", "Test"]);
        repository.git(&["config", "user.email", "test@example.com"]);
        repository
    }

    /// Returns the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory as text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.path.to_str().expect("a test's home is UTF-8")
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path.join(name), content).expect("a file of the repository");
    }

    /// Commits everything and returns the new HEAD.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
        self.head()
    }

    /// Returns HEAD.
    #[must_use]
    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Runs git and returns what it printed.
    ///
    /// # Panics
    /// When git fails.
    pub fn git(&self, arguments: &[&str]) -> String {
        let mut command: Command = self.environment.command("git");
        let output = command.current_dir(&self.path).args(arguments).output().expect("git is installed");
        assert!(output.status.success(), "git {arguments:?}: {}", shown(&output));
        String::from_utf8(output.stdout).expect("git prints UTF-8 here")
    }
}
