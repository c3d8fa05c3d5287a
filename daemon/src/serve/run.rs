//! From the environment to a serving daemon, and from a serving daemon to its end.
//!
//! `serve` finds everything in the environment; `run` is the daemon on what it is handed.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use grounding_proto::environment::{Environment, GROUNDING_STATE_DIR};
use grounding_proto::exit;
use grounding_proto::wire::Root;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustix::net::Shutdown;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::instance::{self, Instance, Origin};
use super::listener::{self, Owner};
use super::readiness::{self, Readiness};
use super::{Listener, ServeError, activation, watchdog};
use crate::api::{self, Daemon};
use crate::clock::SystemClock;
use crate::error::describe;
use crate::logging;
use crate::process;

/// How long requests in flight may take once the daemon is to end.
const SHUTDOWN: Duration = Duration::from_secs(10);
/// How long the ledgers may take to close after that.
const CLOSING: Duration = Duration::from_secs(3);
/// How often the daemon looks whether its socket file or its executable is another one.
const LOOK: Duration = Duration::from_secs(2);

/// Returns the future that serves until it is told to end. To be called before the process has threads; what a service
/// manager handed over is taken at once.
pub fn serve(environment: Environment) -> impl Future<Output = ExitCode> {
    let handed = activation::take(&environment);
    serve_on(environment, handed)
}

async fn serve_on(environment: Environment, handed: Result<Option<UnixListener>, ServeError>) -> ExitCode {
    // A session of its own: a terminal's signals are not for the daemon. It fails only when it has one already.
    let _ = rustix::process::setsid();
    // Without it a size limit ends the daemon instead of failing a write.
    let _ = process::survive_file_size_limit();
    let readiness = Readiness;
    let prepared = match handed {
        Ok(handed) => prepare(environment, handed, &readiness).await,
        Err(error) => Err(error),
    };
    match prepared {
        Ok(end) => {
            end.await;
            ExitCode::from(exit::OK)
        }
        Err(ServeError::Busy(path)) => {
            readiness.busy();
            tracing::info!(lock = %path.display(), "another instance serves");
            ExitCode::from(exit::BUSY)
        }
        Err(error) => {
            let text = describe(&error);
            tracing::error!(error = text, "can't serve");
            readiness.failed(&text);
            ExitCode::from(exit::FAILED)
        }
    }
}

async fn prepare(
    environment: Environment,
    handed: Option<UnixListener>,
    readiness: &Readiness,
) -> Result<impl Future<Output = ()>, ServeError> {
    let socket = environment.socket_path()?;
    let origin = if environment.get(GROUNDING_STATE_DIR).is_some() { Origin::Chosen } else { Origin::Default };
    instance::create_state_dir(&environment.state_dir()?, origin)?;
    readiness.say("opening");
    let listening = handed.as_ref().and_then(listener::listening_process);
    let instance = Instance::take(environment.instance_lock()?, &socket, listening, readiness).await?;
    let log = environment.log_file()?;
    logging::start(&log, &environment).map_err(ServeError::io("write", &log))?;
    instance::create_private(&environment.run_dir()?)?;

    let daemon = Daemon::new(environment, socket.clone(), SystemClock::shared());
    recover(&daemon, readiness).await;
    let (listener, waiting) = match handed {
        Some(handed) => Listener::adopt(handed, &socket)?,
        None => (Listener::bind(&socket)?, Vec::new()),
    };
    // Heard from here on: whoever reads `ready` may send one, and an unheard one would leave the socket behind.
    if let Ok(termination) = process::termination() {
        tokio::spawn(drain_on_signal(daemon.clone(), termination));
    }
    tracing::info!(version = api::health::VERSION, pid = std::process::id(), socket = %socket.display(), "serving");
    readiness.ready(&socket);
    Ok(run(daemon, listener, waiting, instance))
}

/// Recovers the attempts of the default roots, and says so as long as it takes.
async fn recover(daemon: &Daemon, readiness: &Readiness) {
    readiness.say("recovering");
    let Root::Path(verdicts) = daemon.environment().roots().verdicts else { return };
    let (attempts, settings) = (daemon.attempts().clone(), daemon.environment().settings().0);
    if !attempts.first_seen(verdicts.as_path()) {
        return;
    }
    let recover = move || api::daemon::recover(&attempts, verdicts.as_path(), &settings);
    let mut recovered = tokio::task::spawn_blocking(recover);
    // A panic there is in the log; attempts are then settled by the lookups that ask for them.
    while tokio::time::timeout(Duration::from_secs(1), &mut recovered).await.is_err() {
        readiness.say("recovering");
    }
}

/// Serves a listener until the daemon drains or a signal comes; then finishes what is in flight, bounded.
async fn run(daemon: Daemon, mut listener: Listener, waiting: Vec<UnixStream>, instance: Instance) {
    let router = api::router(daemon.clone());
    let connections = TaskTracker::new();
    for stream in waiting {
        accept(stream, &daemon, &router, &connections);
    }
    let (news_sender, mut news) = mpsc::channel(1);
    let mut watcher = listener.watch(news_sender.clone());
    let mut look = tokio::time::interval(LOOK);
    tokio::spawn(drain_on_upgrade(daemon.clone()));
    let pings = tokio::spawn(watchdog::run(daemon.clone()));
    loop {
        let looked_at = tokio::select! {
            accepted = listener.listener.accept() => {
                match accepted {
                    Ok((stream, _)) => accept(stream, &daemon, &router, &connections),
                    Err(error) => {
                        tracing::warn!(%error, "can't accept a connection");
                        // Out of descriptors, most likely: some are given back by the connections there are.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
                continue;
            }
            _ = news.recv() => listener.is_in_place(),
            // The watch itself goes with its directory.
            _ = look.tick() => listener.is_in_place(),
            () = daemon.drained() => break,
        };
        if !looked_at {
            if listener.owner() == Owner::Manager {
                tracing::warn!("the socket's file was the service manager's; its unit should be restarted");
            }
            match bind_again(&daemon, &instance) {
                Ok(bound) => {
                    for stream in std::mem::replace(&mut listener, bound).abandon() {
                        accept(stream, &daemon, &router, &connections);
                    }
                    watcher = listener.watch(news_sender.clone());
                }
                Err(why) => {
                    tracing::error!(why, "the socket file vanished and can't be made again: ending");
                    daemon.drain();
                }
            }
        }
    }
    drop(watcher);
    pings.abort();
    // Before the socket goes: who then asks the manager for the next daemon has to find it waiting for this one's end.
    readiness::stopping();
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
    if tokio::time::timeout(CLOSING, daemon.ledgers().close()).await.is_err() {
        tracing::warn!("a ledger was still in use at the end");
    }
    tracing::info!("ended");
    drop(instance);
}

/// Binds the socket again whose file is gone, unless the lock file is gone too: then another instance may have it.
fn bind_again(daemon: &Daemon, instance: &Instance) -> Result<Listener, String> {
    if !instance.is_in_place() {
        return Err("the instance lock's file was removed or replaced".to_owned());
    }
    let bind = || {
        instance::create_private(&daemon.environment().run_dir()?)?;
        Listener::bind(daemon.socket())
    };
    let listener = bind().map_err(|error: ServeError| describe(&error))?;
    tracing::warn!("the socket file had vanished and was made again");
    Ok(listener)
}

fn accept(stream: UnixStream, daemon: &Daemon, router: &axum::Router, connections: &TaskTracker) {
    let peer = stream.peer_cred().ok().map(|peer| peer.uid());
    if let Err(stranger) = listener::admit(rustix::process::geteuid().as_raw(), peer) {
        tracing::warn!(%stranger, "refused");
        return;
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

async fn drain_on_signal(daemon: Daemon, termination: impl Future<Output = ()>) {
    termination.await;
    tracing::info!("asked to end by a signal");
    daemon.drain();
}

/// Drains once the executable on disk is another one and nothing is in flight; the next call then starts that one.
async fn drain_on_upgrade(daemon: Daemon) {
    let Ok(path) = std::env::current_exe() else { return };
    let identity = |path: &Path| path.metadata().map(|it| (it.dev(), it.ino(), it.mtime(), it.mtime_nsec())).ok();
    let Some(born_as) = identity(&path) else { return };
    loop {
        tokio::time::sleep(LOOK).await;
        if identity(&path).is_some_and(|now| now != born_as) {
            daemon.idle().await;
            tracing::info!("the executable was replaced");
            daemon.drain();
            return;
        }
    }
}
