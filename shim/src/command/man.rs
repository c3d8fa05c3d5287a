//! `groundingctl man`: the manual, made from the same words as `--help`.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap_mangen::Man as Page;
use grounding_proto::exit;

use super::cli;
use super::failure::CommandError;
use crate::output;

/// Print the manual page of this program, or write one page per command.
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Write groundingctl.1, groundingctl-status.1 and so on into this directory instead.
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Man {
    /// Runs the command.
    ///
    /// # Errors
    /// When a page can't be written.
    pub fn run(self) -> Result<u8, CommandError> {
        let mut program = cli::command();
        program.build();
        let Some(dir) = self.dir else {
            output::bytes(&rendered(&program)?)?;
            return Ok(exit::OK);
        };
        fs::create_dir_all(&dir).map_err(CommandError::io("create the directory", &dir))?;
        let number = write(&dir, &program)?;
        output::talk(&format!("Wrote {number} pages to {}.", dir.display()));
        Ok(exit::OK)
    }
}

/// Writes the pages of a command and of those below it, and returns how many.
fn write(dir: &Path, command: &clap::Command) -> Result<usize, CommandError> {
    let path = dir.join(Page::new(command.clone()).get_filename());
    let page = rendered(command)?;
    replace(dir, &path, &page).map_err(CommandError::io("write", &path))?;
    let mut number = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        number += write(dir, below)?;
    }
    Ok(number)
}

fn rendered(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Page::new(command.clone()).manual("grounding").render(&mut page)?;
    Ok(page)
}

fn replace(dir: &Path, path: &Path, page: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    // Unlike all else that is written here, a manual is for everybody.
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(page)?;
    file.persist(path)?;
    Ok(())
}
