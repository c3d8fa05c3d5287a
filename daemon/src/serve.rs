//! The daemon's life: one instance, its socket, its log, readiness, and an end that is bounded (DESIGN 2, 3, 5, 9).
//!
//! `run` is the daemon on a listener it is handed; `serve` finds everything in the environment and calls it. Only the
//! holder of the instance lock touches the socket file, and it removes only its own. An end loses no request: what was
//! sent before it is answered, and what is sent after it fails before anything of it was read.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use grounding_proto::environment::{Environment, GROUNDING_STATE_DIR};
use grounding_proto::exit;
use grounding_proto::wire::{Root, Settings};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use notify::Watcher;
use rustix::net::Shutdown;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::api::{self, Daemon};
use crate::clock::SystemClock;
use crate::error::describe;
use crate::logging;

/// How long requests in flight may take once the daemon is to end.
const SHUTDOWN: Duration = Duration::from_secs(10);
/// How often the daemon looks whether its executable was replaced.
const UPGRADE_LOOK: Duration = Duration::from_secs(2);
/// How long a starting daemon waits for another one that is about to end.
const TAKEOVER: Duration = Duration::from_secs(15);

/// A daemon that can't serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The environment names no usable directory.
    #[error(transparent)]
    Environment(#[from] grounding_proto::environment::EnvironmentError),
    /// A directory is not safe to use.
    #[error("{} {problem}; make it a directory of yours with mode 0700, or set GROUNDING_STATE_DIR", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong, as a predicate.
        problem: &'static str,
    },
    /// A file or socket can't be made.
    #[error("can't {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another instance serves.
    #[error("another groundingd holds {}", .0.display())]
    Busy(PathBuf),
}

impl ServeError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

/// Serves until it is told to end.
pub async fn serve(environment: Environment) -> ExitCode {
    // A session of its own: a terminal's signals are not for the daemon. It fails only when it has one already.
    let _ = rustix::process::setsid();
    let readiness = Readiness;
    match prepare(environment, &readiness).await {
        Ok(end) => {
            end.await;
            ExitCode::from(exit::OK)
        }
        Err(ServeError::Busy(path)) => {
            readiness.say("busy");
            tracing::info!(lock = %path.display(), "another instance serves");
            ExitCode::from(exit::OK)
        }
        Err(error) => {
            let text = describe(&error);
            tracing::error!(error = text, "can't serve");
            readiness.say(&format!("error {}", text.replace('\n', " ")));
            ExitCode::from(exit::FAILED)
        }
    }
}

/// What a launcher reads from the daemon's stdout: progress words, then `ready`, `busy` or `error <text>`.
struct Readiness;

impl Readiness {
    /// Says a word; a launcher that is gone does not need it.
    fn say(&self, word: &str) {
        let _ = writeln!(io::stdout(), "{word}").and_then(|()| io::stdout().flush());
    }

    /// Says the last word and lets go of the pipe, so that a reader of it sees its end.
    fn last(&self, word: &str) {
        self.say(word);
        if let Ok(nowhere) = OpenOptions::new().write(true).open("/dev/null") {
            // The pipe stays open otherwise, which costs its reader the end and nothing else.
            let _ = rustix::stdio::dup2_stdout(&nowhere);
        }
    }
}

async fn prepare(environment: Environment, readiness: &Readiness) -> Result<impl Future<Output = ()>, ServeError> {
    let (state_dir, socket) = (environment.state_dir()?, environment.socket_path()?);
    create_state_dir(&state_dir, environment.get(GROUNDING_STATE_DIR).is_some())?;
    logging::start(&state_dir.join("log"), &environment).map_err(ServeError::io("write", &state_dir.join("log")))?;
    readiness.say("opening");
    let instance = take_instance_lock(&state_dir.join("groundingd.lock"), readiness).await?;
    let run_dir = state_dir.join("run");
    create_private(&run_dir)?;

    let daemon = Daemon::new(environment, socket.clone(), SystemClock::shared());
    readiness.say("recovering");
    if let Root::Path(verdicts) = daemon.environment().roots().verdicts
        && daemon.attempts().first_seen(verdicts.as_path())
    {
        let (attempts, settings) = (daemon.attempts().clone(), daemon.environment().settings().0);
        let recovered = tokio::task::spawn_blocking(move || recover(&attempts, verdicts.as_path(), &settings));
        // A panic there is in the log; attempts are then settled by the lookups that ask for them.
        let _ = recovered.await;
    }
    let listener = Listener::bind(&socket)?;
    tracing::info!(version = api::health::VERSION, pid = std::process::id(), socket = %socket.display(), "serving");
    readiness.last("ready");
    // Without a service manager there is nobody to tell.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    Ok(async move {
        run(daemon, listener).await;
        drop(instance);
    })
}

fn recover(attempts: &crate::attempt::table::Attempts, verdicts: &Path, settings: &Settings) {
    api::daemon::recover(attempts, verdicts, settings);
}

/// Serves a listener until the daemon drains or a signal comes; then finishes what is in flight, bounded.
pub async fn run(daemon: Daemon, mut listener: Listener) {
    let router = api::router(daemon.clone());
    let connections = TaskTracker::new();
    let (vanished_sender, mut vanished) = mpsc::channel(1);
    let _watcher = listener.watch(vanished_sender);
    tokio::spawn(drain_on_signal(daemon.clone()));
    tokio::spawn(drain_on_upgrade(daemon.clone()));
    loop {
        tokio::select! {
            accepted = listener.listener.accept() => match accepted {
                Ok((stream, _)) => accept(stream, &daemon, &router, &connections),
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection");
                    // Out of descriptors, most likely: some are given back by the connections there are.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            _ = vanished.recv() => listener.bind_again_if_vanished(),
            () = daemon.drained() => break,
        }
    }
    // As above.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    // Gone before the last answers: who comes now starts the next daemon instead of queueing at this one.
    listener.remove();
    for stream in listener.close() {
        accept(stream, &daemon, &router, &connections);
    }
    connections.close();
    let finished = async {
        daemon.idle().await;
        connections.wait().await;
    };
    if tokio::time::timeout(SHUTDOWN, finished).await.is_err() {
        tracing::warn!("requests were still in flight at the end");
    }
    daemon.ledgers().close().await;
    tracing::info!("ended");
}

fn accept(stream: UnixStream, daemon: &Daemon, router: &axum::Router, connections: &TaskTracker) {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own || peer.uid() == 0 => {}
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "refused a connection of another user");
            return;
        }
        Err(error) => {
            tracing::warn!(%error, "refused a connection of an unknown user");
            return;
        }
    }
    let Ok(handle) = stream.as_fd().try_clone_to_owned() else { return };
    let (counted, daemon) = (daemon.count_client(), daemon.clone());
    let service = TowerToHyperService::new(router.clone());
    // An answer is still owed after the reading side was shut.
    let connection =
        hyper::server::conn::http1::Builder::new().half_close(true).serve_connection(TokioIo::new(stream), service);
    connections.spawn(async move {
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = daemon.drained() => {
                // From now on the client can't write: what it wrote before is answered, nothing else is lost halfway.
                let _ = rustix::net::shutdown(&handle, Shutdown::Read);
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
        drop(counted);
    });
}

async fn drain_on_signal(daemon: Daemon) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("asked to end by a signal");
    daemon.drain();
}

/// Drains once the executable on disk is another one and nothing is in flight; the next call then starts that one.
async fn drain_on_upgrade(daemon: Daemon) {
    let Ok(path) = std::env::current_exe() else { return };
    let identity = |path: &Path| path.metadata().map(|it| (it.dev(), it.ino(), it.mtime(), it.mtime_nsec())).ok();
    let Some(born_as) = identity(&path) else { return };
    loop {
        tokio::time::sleep(UPGRADE_LOOK).await;
        if identity(&path).is_some_and(|now| now != born_as) {
            daemon.idle().await;
            tracing::info!("the executable was replaced");
            daemon.drain();
            return;
        }
    }
}

/// The socket, and the file it is bound to.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Listener {
    /// Binds the socket, replacing a file that no daemon listens on any more. The caller holds the instance lock.
    ///
    /// # Errors
    /// When the path can't be bound.
    pub fn bind(path: &Path) -> Result<Self, ServeError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(ServeError::io("remove", path)(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(ServeError::io("bind", path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(ServeError::io("protect", path))?;
        let inode = fs::symlink_metadata(path).map_err(ServeError::io("read", path))?.ino();
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Tells of every change in the socket's directory.
    fn watch(&self, changes: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
        let watcher = notify::recommended_watcher(move |_| {
            // A full channel already holds the news.
            let _ = changes.try_send(());
        });
        let mut watcher = watcher.ok()?;
        watcher.watch(self.path.parent()?, notify::RecursiveMode::NonRecursive).ok()?;
        Some(watcher)
    }

    fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode)
    }

    fn bind_again_if_vanished(&mut self) {
        if self.is_in_place() {
            return;
        }
        match Self::bind(&self.path) {
            Ok(listener) => {
                tracing::warn!("the socket file had vanished and was made again");
                *self = listener;
            }
            Err(error) => tracing::error!(error = describe(&error), "the socket file vanished and can't be made again"),
        }
    }

    /// Lets nobody connect any more, and returns who had connected before.
    fn close(&self) -> Vec<UnixStream> {
        // A listener that can't be shut is closed with what is queued when it is dropped.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Read);
        // Asked directly: the runtime waits for news of a listener, and a shut one has none.
        let queued = std::iter::from_fn(|| rustix::net::accept(&self.listener).ok());
        queued.filter_map(|socket| adopt(socket).ok()).collect()
    }

    fn remove(&self) {
        if self.is_in_place() {
            // Left behind, it is replaced by the next daemon.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Hands an accepted socket to the runtime.
fn adopt(socket: OwnedFd) -> io::Result<UnixStream> {
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Takes the lock that makes this the one instance; waits a little for one that is about to end.
async fn take_instance_lock(path: &Path, readiness: &Readiness) -> Result<File, ServeError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(ServeError::io("open", path))?;
    let socket = path.with_file_name("run").join("groundingd.sock");
    let started = tokio::time::Instant::now();
    let mut said = 0;
    loop {
        match file.try_lock() {
            Ok(()) => {
                let content = format!("{} {}\n", std::process::id(), api::health::VERSION);
                // For people who look; the lock itself is the kernel's.
                let _ = file.set_len(0).and_then(|()| (&file).write_all(content.as_bytes()));
                return Ok(file);
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(ServeError::io("lock", path)(error)),
        }
        let answers = UnixStream::connect(&socket).await.is_ok();
        if answers || started.elapsed() >= TAKEOVER {
            return Err(ServeError::Busy(path.to_owned()));
        }
        if started.elapsed().as_secs() > said {
            said += 1;
            readiness.say("waiting");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Creates the state directory. The default one may be there already, made by another program with other permissions:
/// it is tightened. One that was chosen is left as it is, but must not be writable by others, who could replace the locks.
fn create_state_dir(dir: &Path, chosen: bool) -> Result<(), ServeError> {
    let mode = create_own(dir)?;
    if !chosen && mode & 0o077 != 0 {
        return fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(ServeError::io("tighten", dir));
    }
    refuse_if(mode & 0o022 != 0, dir, "can be written by other users")
}

/// Creates a private directory, or checks that the one there is private.
fn create_private(dir: &Path) -> Result<(), ServeError> {
    let mode = create_own(dir)?;
    refuse_if(mode & 0o077 != 0, dir, "is open to other users")
}

/// Creates a directory, or checks that the one there is the user's own; returns its mode.
fn create_own(dir: &Path) -> Result<u32, ServeError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir).map_err(ServeError::io("create", dir))?;
    let metadata = fs::symlink_metadata(dir).map_err(ServeError::io("read", dir))?;
    refuse_if(metadata.is_symlink(), dir, "is a symlink")?;
    refuse_if(metadata.uid() != rustix::process::geteuid().as_raw(), dir, "belongs to another user")?;
    Ok(metadata.mode())
}

fn refuse_if(refused: bool, dir: &Path, problem: &'static str) -> Result<(), ServeError> {
    if refused { Err(ServeError::Unsafe { path: dir.to_owned(), problem }) } else { Ok(()) }
}
