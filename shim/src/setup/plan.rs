//! What set-up will do, found out from what is on disk; nothing is changed here.

use std::path::{Path, PathBuf};

use grounding_proto::environment::{Environment, GROUNDING_STATE_DIR};

use super::error::SetupError;
use super::preflight;
use super::programs::{Installation, Reach};
use super::record::Record;
use super::registration::Registering;
use super::service::{self, ServicePlan};
use crate::client::{Client, StartPolicy};
use crate::error::{ClientError, chain};
use crate::host::entry::PROGRAM;
use crate::host::known::{Host, Site};
use crate::service::ServiceManager;

/// What is wanted.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Where the programs go; nothing for the default.
    pub prefix: Option<PathBuf>,
    /// A project whose own file gets an entry.
    pub project: Option<PathBuf>,
    /// The hosts, found or not; none for all that are found.
    pub hosts: Vec<Host>,
    /// Whether the daemon becomes a service.
    pub service: Service,
}

/// Whether the daemon becomes a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Service {
    /// Where there is a service manager.
    #[default]
    WherePossible,
    /// No.
    No,
}

/// What will be done.
#[derive(Debug)]
pub struct Plan {
    /// Where the programs will be.
    pub installation: Installation,
    /// The manager that gets the unit, if that is to be done.
    pub service: Option<Box<ServiceManager>>,
    /// The hosts' files that get an entry.
    pub registering: Vec<Registering>,
    /// Whether the daemon is to be started.
    pub start: Start,
    /// A sentence for each change.
    pub changes: Vec<String>,
    /// A sentence for what holds already, and what is good to know.
    pub notes: Vec<String>,
    /// A sentence for each host that is left out, with the reason.
    pub refusals: Vec<String>,
    /// The path that is registered.
    pub server: String,
    /// What earlier set-ups did.
    pub record: Record,
}

/// Whether the daemon is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It does not run.
    Needed,
    /// It runs, or must not.
    Not,
}

/// Finds out what is to be done.
///
/// # Errors
/// When nothing can be done at all: no home, no programs, a record that is not understood.
pub async fn plan(environment: &Environment, wish: &Wish) -> Result<Plan, SetupError> {
    let record = Record::load(environment)?.unwrap_or_default();
    let installation = Installation::plan(environment, wish.prefix.as_deref())?;
    let server = installation.program(PROGRAM);
    let Some(server) = server.to_str().map(str::to_owned) else {
        let problem = "is not UTF-8, so no host can be told of it; choose another place with --prefix";
        return Err(SetupError::File { path: server, problem });
    };
    let mut plan = Plan {
        installation,
        service: None,
        registering: Vec::new(),
        start: Start::Needed,
        changes: Vec::new(),
        notes: Vec::new(),
        refusals: Vec::new(),
        server,
        record,
    };
    plan.say_programs();
    plan.plan_service(environment, wish.service).await;
    plan.plan_hosts(environment, wish)?;
    plan.plan_start(environment).await?;
    plan.notes.push(preflight::said(environment));
    if environment.get(GROUNDING_STATE_DIR).is_some() {
        plan.notes.push(format!(
            "{GROUNDING_STATE_DIR} is set here: set it for your hosts, too, or they use another daemon."
        ));
    }
    Ok(plan)
}

impl Plan {
    fn say_programs(&mut self) {
        let directory = self.installation.directory.display();
        let names: Vec<_> = self.installation.copies.iter().filter_map(|(_, to)| to.file_name()?.to_str()).collect();
        match names.split_last() {
            None => self.notes.push(format!("The programs are in {directory}.")),
            Some((last, [])) => self.changes.push(format!("Install {last} in {directory}.")),
            Some((last, rest)) => self.changes.push(format!("Install {} and {last} in {directory}.", rest.join(", "))),
        }
        if self.installation.reach == Reach::OffPath {
            self.notes
                .push(format!("{directory} is not on PATH: add it there, so that your shell finds groundingctl."));
        }
    }

    async fn plan_service(&mut self, environment: &Environment, wanted: Service) {
        const AUTOMATIC: &str = "Clients start the daemon when they need it";
        if wanted == Service::No {
            self.notes.push(format!("{AUTOMATIC}."));
            return;
        }
        match service::plan(environment, &self.installation.program(crate::process::DAEMON)).await {
            ServicePlan::Holds { file } => self.notes.push(format!("The service is installed: {}.", file.display())),
            ServicePlan::Install { manager, file } => {
                self.changes.push(format!("Install and enable the service of {}: {}.", manager.name(), file.display()));
                self.service = Some(manager);
            }
            ServicePlan::None(why) => self.notes.push(format!("{AUTOMATIC}: {why}.")),
            ServicePlan::Foreign { file } => {
                let file = file.display();
                self.refusals.push(format!("{file} starts another program, and clients start that unit; remove it"));
                self.start = Start::Not;
            }
        }
    }

    fn plan_hosts(&mut self, environment: &Environment, wish: &Wish) -> Result<(), SetupError> {
        let mut sites = Vec::new();
        let wanted = if wish.hosts.is_empty() { Host::ALL.as_slice() } else { &wish.hosts };
        for host in wanted {
            match host.site(environment) {
                Ok(site) if !wish.hosts.is_empty() || host.is_found(environment, &site) => sites.push(site),
                Ok(_) => {}
                Err(error) => self.refusals.push(format!("{}: {error}", host.title())),
            }
        }
        if let Some(project) = &wish.project {
            let directory = project.canonicalize().map_err(SetupError::io("find the project", project))?;
            sites.push(Host::project_site(&directory));
        }
        if sites.is_empty() {
            let names: Vec<_> = Host::ALL.iter().map(|host| host.title()).collect();
            self.notes.push(format!("No host was found ({}); --host names one all the same.", names.join(", ")));
        }
        for site in sites {
            self.plan_site(environment, site);
        }
        Ok(())
    }

    fn plan_site(&mut self, environment: &Environment, site: Site) {
        let (title, file) = (site.host.title(), site.file.clone());
        match Registering::plan(environment, site, &self.server) {
            Ok(None) => self.notes.push(format!("{title} has it: {}.", file.display())),
            Ok(Some(registering)) => {
                self.changes.push(registering.sentence());
                self.registering.push(registering);
            }
            Err(error) => self.refusals.push(format!("{title}: {}", chain(&error))),
        }
    }

    async fn plan_start(&mut self, environment: &Environment) -> Result<(), SetupError> {
        let client = Client::new(environment.clone(), StartPolicy::Never);
        match client.version().await {
            Ok(version) => {
                let replaced = !self.installation.copies.is_empty();
                self.notes.push(if replaced && runs_from(version.pid, &self.installation.directory) {
                    format!(
                        "The running groundingd (pid {}) ends by itself once nothing is in flight, and the next call starts \
                         the new one.",
                        version.pid
                    )
                } else if replaced {
                    format!("groundingd runs from another place (pid {}): `groundingctl restart` replaces it.", version.pid)
                } else {
                    format!("groundingd is running (pid {}).", version.pid)
                });
                if let Some(manager) = &self.service {
                    let name = manager.name();
                    self.notes.push(format!("{name} takes it over at the next start; `groundingctl restart` is one."));
                }
            }
            Err(ClientError::NotRunning { .. }) if client.state()?.is_stopped() => {
                self.notes.push("groundingd stays stopped until `groundingctl start`.".to_owned());
            }
            Err(ClientError::NotRunning { .. }) if self.start == Start::Needed => {
                self.changes.push("Start groundingd.".to_owned());
                return Ok(());
            }
            Err(ClientError::NotRunning { .. }) => return Ok(()),
            Err(error) => self.refusals.push(chain(&error)),
        }
        self.start = Start::Not;
        Ok(())
    }
}

/// Returns whether a process runs a program of a directory, which a replacement of it would end; where the system does not
/// say, that is taken for granted.
fn runs_from(pid: u32, directory: &Path) -> bool {
    let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return true };
    directory.canonicalize().is_ok_and(|directory| program.starts_with(directory))
}
