//! The user's service manager: whether our unit there is of use, and whether it outlives the user's sessions.

use grounding_proto::environment::Environment;

use super::check::Check;
use crate::error::chain;
use crate::process;
use crate::service::{Activity, Enablement, Lingering, NoManager, ServiceManager, Staleness, Unit};

/// What is known of the manager.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) checks: Vec<Check>,
    /// Whether the manager listens for a daemon that does not run: a connection would start it.
    pub(super) is_asleep: bool,
}

/// Looks at the manager and our unit.
pub(super) async fn look(environment: &Environment) -> Looked {
    let awake = |checks| Looked { checks, is_asleep: false };
    let manager = match ServiceManager::find(environment).await {
        Ok(manager) => manager,
        Err(error @ NoManager::Silent(_)) => {
            let remedy = "look at it with `systemctl --user status`; clients start the daemon by themselves meanwhile";
            return awake(vec![Check::warning("service", chain(&error), remedy)]);
        }
        Err(error) => {
            let message = format!("{}; clients start the daemon by themselves", chain(&error));
            return awake(vec![Check::ok("service", message)]);
        }
    };
    let (unit, socket) = match (manager.unit().await, manager.socket_unit().await) {
        (Ok(unit), Ok(socket)) => (unit, socket),
        (Err(error), _) | (_, Err(error)) => {
            let remedy = "look at the manager itself; clients start the daemon by themselves meanwhile";
            return awake(vec![Check::warning("service", chain(&error), remedy)]);
        }
    };
    let serves = manager.serves_the_same_state(&unit);
    let listens = socket.activity == Activity::Active;
    let is_asleep = serves && listens && !matches!(unit.activity, Activity::Active | Activity::Starting);
    let mut checks = vec![service(environment, &manager, &unit, serves)];
    if socket.is_installed() && socket.activity == Activity::Failed {
        let message = format!("the unit that listens for the daemon failed ({})", socket.result);
        checks.push(Check::warning("service-socket", message, "systemctl --user reset-failed groundingd.socket"));
    }
    if unit.is_installed() {
        checks.push(lingering(manager.lingering().await));
    }
    Looked { checks, is_asleep }
}

fn service(environment: &Environment, manager: &ServiceManager, unit: &Unit, serves: bool) -> Check {
    let name = "service";
    let Some(file) = &unit.file else {
        return Check::ok(name, format!("no unit in {}; clients start the daemon by themselves", manager.name()));
    };
    let shown = file.display();
    if unit.enablement == Enablement::Masked {
        let message = format!("the unit {shown} is masked, so clients start the daemon by themselves");
        return Check::warning(name, message, "systemctl --user unmask groundingd, if that is not wanted");
    }
    let Ok(ours) = process::sibling(environment, process::DAEMON) else {
        return Check::ok(name, format!("{shown}; whether it starts this build can't be said"));
    };
    match unit.staleness(&ours) {
        Some(Staleness::Changed) => {
            let message = format!("{shown}: {}", Staleness::Changed);
            return Check::warning(name, message, "groundingctl setup, or systemctl --user daemon-reload");
        }
        Some(stale @ Staleness::Other(_)) => {
            return Check::warning(name, format!("{shown}: {stale}"), "groundingctl setup, or remove the unit");
        }
        Some(stale) => {
            return Check::failure(name, format!("{shown}: {stale}"), "groundingctl setup, or remove the unit");
        }
        None => {}
    }
    if !serves {
        let message = format!("the daemon of {shown} has another state directory than this environment");
        let remedy = "name the same GROUNDING_STATE_DIR in both, or in neither; clients start their daemon by themselves meanwhile";
        return Check::warning(name, message, remedy);
    }
    match unit.activity {
        Activity::Failed => {
            let message = format!("{shown} failed ({})", unit.result);
            Check::warning(name, message, format!("look with `{}`, then groundingctl start", manager.journal_command()))
        }
        Activity::Active => Check::ok(name, format!("{shown} runs the daemon")),
        _ => Check::ok(name, format!("{shown} starts the daemon when it is needed")),
    }
}

fn lingering(lingering: Lingering) -> Check {
    let name = "lingering";
    match lingering {
        Lingering::On => Check::ok(name, "on: the daemon and its attempts outlive your sessions"),
        Lingering::Off => {
            let message = "off: the daemon, and attempts that run, end with your last session";
            Check::warning(name, message, "loginctl enable-linger, if they should go on")
        }
        Lingering::Unknown => Check::ok(name, "not known here"),
    }
}
