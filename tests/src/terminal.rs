//! A pseudo-terminal with a program on it: what a person at a terminal sees.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::process;
use crate::wait::wait_for;

/// A terminal of 100 columns and 30 rows, and the program whose stdin, stdout and stderr it is.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    screen: File,
    shown: Arc<Mutex<Vec<u8>>>,
    before: Termios,
}

impl Terminal {
    /// Starts a program on a fresh terminal.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&keyboard).and_then(|()| unlockpt(&keyboard)).expect("its other side");
        let path = ptsname(&keyboard, Vec::new()).expect("its name").into_string().expect("UTF-8");
        let screen = File::options().read(true).write(true).open(path).expect("its other side opens");
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size).expect("a size");
        let before = tcgetattr(&screen).expect("its modes");
        let end = || Stdio::from(screen.try_clone().expect("a descriptor"));
        let child = command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (sink, mut source) = (Arc::clone(&shown), File::from(keyboard));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // The end of a terminal is an error.
            while let Ok(read @ 1..) = source.read(&mut piece) {
                sink.lock().expect("never poisoned").extend_from_slice(&piece[..read]);
            }
        });
        Self { child: child.expect("the program starts"), screen, shown, before }
    }

    /// Returns everything that was written to the terminal so far.
    #[must_use]
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("never poisoned")).into_owned()
    }

    /// Waits until something is written behind the first `from` bytes, and returns how many bytes there are then.
    pub fn wait_until_shown(&self, from: usize, what: &str) -> usize {
        wait_for(what, || {
            let shown = self.shown();
            if shown.get(from..).is_some_and(|new| new.contains(what)) { Ok(shown.len()) } else { Err(shown) }
        })
    }

    /// Sends Ctrl-C's signal and returns how the program ended.
    ///
    /// # Panics
    /// When the terminal's modes are not as they were before.
    pub fn interrupt(mut self) -> ExitStatus {
        process::interrupt(self.child.id());
        let (status, _) = process::wait_exit(&mut self.child);
        let after = tcgetattr(&self.screen).expect("its modes");
        assert_eq!(format!("{after:?}"), format!("{:?}", self.before), "the terminal is left as it was found");
        status
    }

    /// Waits for the program to end by itself, and returns how, and what was shown up to a word.
    pub fn end(mut self, last: &str) -> (ExitStatus, String) {
        let (status, _) = process::wait_exit(&mut self.child);
        self.wait_until_shown(0, last);
        (status, self.shown())
    }
}
