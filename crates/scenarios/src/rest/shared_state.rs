//! State that all users of the scenario share.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use lucarne_load::http::{BodyBudget, Client, ClientOptions, Endpoint, HeldBodies};
use lucarne_load::{OwnMetrics, PrepareError};
use lucarne_settings::read_text;

use super::files;
use super::options::{Connections, Cookies, RestOptions, Step, SystemTag};
use super::own_metrics::{self, TwoKinds};
use super::phases::Phases;
use super::redirects::RedirectServers;
use super::request::{Compiler, Request, RequestError};
use super::rows::{DataOptions, Rows, RowsError, Table};
use super::targets::{self, TargetsError};
use super::template::{Escaping, NameError, Scope, SharedValues, Template, TextError, is_name};
use crate::connection_options::wrong;
use crate::option_values::HttpVersion;

/// Reasons why the options do not describe requests. The message begins with the key.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    #[error(transparent)]
    Steps(#[from] StepsError),
    #[error("data: {0}")]
    DataName(#[source] NameError),
    #[error("data.{name}: {source}")]
    Data { name: String, source: RowsError },
    #[error("`targets` contains the requests: remove `url`, `steps` and `requests`")]
    TargetsAndRequests,
    #[error("targets: {}: {source}", .file.display())]
    Targets {
        file: PathBuf,
        source: UnusableTargets,
    },
    #[error(
        "requests: `capture` keeps a value for one iteration, which is a single request here: use \
         `remember`"
    )]
    CaptureInOneRequest,
    #[error(
        "`{0}` is a value of `setup` or `userSetup`, which lasts longer than an iteration: use \
         another name, or `remember`"
    )]
    Lasting(String),
    #[error(transparent)]
    Remembered(#[from] NameError),
    #[error("counters: {0}")]
    Metrics(#[from] TwoKinds),
    #[error("vars: {0}")]
    VarName(#[source] NameError),
    #[error("vars.{name}: {source}")]
    Var { name: String, source: TextError },
    /// The single request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A request of a list.
    #[error("{key}[{index}].{source}")]
    Item {
        key: &'static str,
        index: usize,
        source: RequestError,
    },
}

/// Reasons why the requests of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnusableTargets {
    #[error(transparent)]
    File(#[from] TargetsError),
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Reasons why the requests of an iteration are missing or ambiguous.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StepsError {
    #[error("`--url` (in a plan also `steps` or `requests`) is missing")]
    Missing,
    #[error(
        "`url`, `method`, `body`, `json`, `expect` and `checks` describe the one request; with \
         `{0}`, write these keys in its items"
    )]
    OneAndList(&'static str),
    #[error("there are both `steps` and `requests`: remove one of them")]
    TwoLists,
}

/// State that all users share.
#[derive(Debug)]
pub(super) struct SharedState {
    /// Values by slot, computed once per iteration.
    pub(super) vars: Vec<(usize, Template)>,
    pub(super) requests: Vec<Request>,
    pub(super) order: Order,
    /// Requests outside the load.
    pub(super) phases: Phases,
    /// Files of rows: an iteration uses one row of each.
    pub(super) data: Vec<Rows>,
    /// Slots that are cleared when an iteration begins.
    pub(super) forgotten: Vec<usize>,
    pub(super) jitter: Duration,
    pub(super) connections: Connections,
    pub(super) cookies: Cookies,
    pub(super) system_tags: Vec<SystemTag>,
    /// Metrics besides those of every scenario.
    pub(super) metrics: OwnMetrics,
    pub(super) common: Arc<SharedValues>,
    pub(super) servers: Vec<String>,
    pub(super) endpoints: OnceLock<Vec<Arc<Endpoint>>>,
    pub(super) redirect_servers: RedirectServers,
    pub(super) options: Arc<ClientOptions>,
}

/// Selection of an iteration's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// All requests in order.
    Steps,
    /// A single request, by weight.
    One,
    /// A single request, in turn.
    Turn,
}

impl SharedState {
    pub(super) fn new(options: RestOptions, seed: u64) -> Result<Self, PrepareError> {
        let mut compiler = Compiler {
            base: options.base_url.as_deref(),
            headers: &options.headers,
            redirects: options.redirects,
            http2: options.connection.http.version == HttpVersion::V2,
            ..Compiler::default()
        };
        let tables = tables(&options, &mut compiler.scope).map_err(wrong)?;
        let columns = compiler.scope.visible();
        let mut forgotten = Vec::new();
        let targets = options
            .targets
            .as_ref()
            .filter(|file| !file.as_os_str().is_empty());
        let vars = match targets {
            Some(_) => Vec::new(),
            None => values(&options, &mut compiler, &mut forgotten).map_err(wrong)?,
        };
        let slots: Vec<usize> = vars.iter().map(|(slot, _)| *slot).collect();
        let phases = Phases::compile(&options, &mut compiler, slots, &columns).map_err(wrong)?;
        let (order, requests) = match targets {
            Some(file) => (
                Order::Turn,
                of_file(file, &options, &mut compiler).map_err(wrong)?,
            ),
            None => of_plan(&options, &mut compiler, &mut forgotten).map_err(wrong)?,
        };
        let metrics = own_metrics::all(&requests, !phases.is_empty());
        let metrics = metrics.map_err(|error| wrong(PlanError::from(error)))?;
        let data = tables.into_iter().map(|(table, slots, options)| {
            let columns = slots.into_iter().enumerate();
            let used = columns.filter(|(_, slot)| compiler.scope.is_used(*slot));
            Rows::new(table, used.collect(), options)
        });
        Ok(Self {
            vars,
            requests,
            order,
            phases,
            data: data.collect(),
            forgotten,
            jitter: options.jitter.0,
            connections: options.connections,
            cookies: options.cookies,
            system_tags: options.system_tags.clone(),
            metrics,
            common: compiler.scope.shared(seed),
            servers: compiler.servers,
            endpoints: OnceLock::new(),
            redirect_servers: RedirectServers::default(),
            options: client_options(options)?,
        })
    }

    /// Returns a client for each server; an empty list before the servers are resolved.
    pub(super) fn clients(&self) -> Vec<Client> {
        let endpoints = self.endpoints.get().into_iter().flatten();
        endpoints
            .map(|endpoint| Client::new(endpoint.clone(), self.options.clone()))
            .collect()
    }

    pub(super) fn common(&self) -> Arc<SharedValues> {
        self.common.clone()
    }
}

/// Rows of each file of `data`, with the slots of their columns.
type Tables<'o> = Vec<(Table, Vec<usize>, &'o DataOptions)>;

/// Reads the files of `data`.
fn tables<'o>(options: &'o RestOptions, scope: &mut Scope) -> Result<Tables<'o>, PlanError> {
    let each = options.data.iter().map(|(name, data)| {
        if !is_name(name) {
            return Err(PlanError::DataName(NameError::Invalid(name.clone())));
        }
        let table = Table::read(&data.file).map_err(|source| PlanError::Data {
            name: name.clone(),
            source,
        })?;
        let slots = table
            .columns
            .iter()
            .map(|column| scope.column(name, column));
        let slots = slots.collect();
        Ok((table, slots, data))
    });
    each.collect()
}

/// Compiles the requests of a file in vegeta's formats.
fn of_file(
    file: &Path,
    options: &RestOptions,
    compiler: &mut Compiler<'_>,
) -> Result<Vec<Request>, PlanError> {
    let expected = RestOptions {
        targets: None,
        expect: Vec::new(),
        ..options.clone()
    };
    if steps(&expected).is_ok() {
        return Err(PlanError::TargetsAndRequests);
    }
    of_targets(file, options, compiler).map_err(|source| PlanError::Targets {
        file: file.to_owned(),
        source,
    })
}

fn of_targets(
    file: &Path,
    options: &RestOptions,
    compiler: &mut Compiler<'_>,
) -> Result<Vec<Request>, UnusableTargets> {
    /// Limit of distinct names in reports.
    const NAMES: usize = 1000;
    let content = if file == Path::new("-") {
        standard_input()
    } else {
        read_text(file)
    };
    let targets = targets::read(&content.map_err(TargetsError::from)?)?;
    let requests = targets
        .into_iter()
        .map(|target| compiler.target(target, &options.expect));
    let mut requests: Vec<Request> = requests.collect::<Result<_, _>>()?;
    let names = requests.iter().map(|request| request.name.as_str());
    if names.collect::<HashSet<&str>>().len() > NAMES {
        requests
            .iter_mut()
            .for_each(|request| request.name = request.method.to_string());
    }
    for request in &mut requests {
        request.think_time = options.think_time;
    }
    Ok(requests)
}

/// Returns the content of standard input, which `load find` needs again for each step.
fn standard_input() -> io::Result<String> {
    static CONTENT: OnceLock<String> = OnceLock::new();
    if let Some(content) = CONTENT.get() {
        return Ok(content.clone());
    }
    let content = io::read_to_string(io::stdin())?;
    Ok(CONTENT.get_or_init(|| content).clone())
}

/// Compiles the values of a plan by slot, and declares the values that any request may use. Adds
/// the slots that are cleared at each iteration to `forgotten`.
fn values(
    options: &RestOptions,
    compiler: &mut Compiler<'_>,
    forgotten: &mut Vec<usize>,
) -> Result<Vec<(usize, Template)>, PlanError> {
    let (order, steps, _) = steps(options)?;
    let lasting = Phases::declare(options, compiler)?;
    // Remembered values are declared first, because any request may use them.
    for step in steps
        .iter()
        .flat_map(|step| [step].into_iter().chain(&step.parallel))
    {
        for (name, _) in &step.remember {
            compiler.scope.declare(name)?;
        }
        if order == Order::One && !step.capture.is_empty() {
            return Err(PlanError::CaptureInOneRequest);
        }
        if let Some((name, _)) = step.capture.iter().find(|it| lasting.contains(&it.0)) {
            return Err(PlanError::Lasting(name.clone()));
        }
    }
    if let Some((name, _)) = options.vars.0.iter().find(|it| lasting.contains(&it.0)) {
        return Err(PlanError::Lasting(name.clone()));
    }
    let mut vars = Vec::new();
    for (name, text) in &options.vars.0 {
        let template = var(text, &mut compiler.scope).map_err(|source| PlanError::Var {
            name: name.clone(),
            source,
        })?;
        let slot = compiler.scope.declare(name).map_err(PlanError::VarName)?;
        forgotten.push(slot);
        vars.push((slot, template));
    }
    Ok(vars)
}

/// Compiles the requests of a plan, and returns them with their order. Adds the slots that are
/// cleared at each iteration to `forgotten`.
fn of_plan(
    options: &RestOptions,
    compiler: &mut Compiler<'_>,
    forgotten: &mut Vec<usize>,
) -> Result<(Order, Vec<Request>), PlanError> {
    let (order, steps, key) = steps(options)?;
    let mut requests = requests(key, &steps, compiler, forgotten)?;
    let mut weight = 0.0;
    for request in &mut requests {
        request.think_time = request.think_time.or(options.think_time);
        weight += request.weight;
        request.weight = weight;
    }
    Ok((order, requests))
}

/// Compiles the requests of the list `key`, whose names must differ.
pub(super) fn requests(
    key: &'static str,
    steps: &[Step],
    compiler: &mut Compiler<'_>,
    forgotten: &mut Vec<usize>,
) -> Result<Vec<Request>, PlanError> {
    let mut requests: Vec<Request> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let wrong = |source| match key {
            "" => PlanError::Request(source),
            key => PlanError::Item { key, index, source },
        };
        for request in compiler.group(key, step, forgotten).map_err(wrong)? {
            if requests.iter().any(|other| other.name == request.name) {
                return Err(wrong(RequestError::NameTaken(request.name)));
            }
            requests.push(request);
        }
    }
    Ok(requests)
}

/// Compiles a value of `vars`, which may be in a file.
fn var(text: &str, scope: &mut Scope) -> Result<Template, TextError> {
    Ok(Template::compile(
        &files::text(text)?,
        Escaping::Plain,
        scope,
    )?)
}

/// Returns the requests with their order and the key in the plan.
pub(super) fn steps(options: &RestOptions) -> Result<(Order, Vec<Step>, &'static str), StepsError> {
    let lists = [
        (Order::Steps, &options.steps, "steps"),
        (Order::One, &options.requests, "requests"),
    ];
    let given: Vec<_> = lists
        .iter()
        .filter(|(_, list, _)| !list.is_empty())
        .collect();
    let single = options.url.is_some()
        || options.method.is_some()
        || options.body.is_some()
        || options.json.is_some()
        || !options.expect.is_empty()
        || !options.checks.is_empty();
    match (given.as_slice(), single) {
        ([], false) => Err(StepsError::Missing),
        ([], true) => Ok((Order::Steps, vec![one(options)], "")),
        ([(order, list, key)], false) => Ok((*order, (*list).clone(), key)),
        ([(_, _, key)], true) => Err(StepsError::OneAndList(key)),
        _ => Err(StepsError::TwoLists),
    }
}

/// Returns the single request of the options.
pub(super) fn one(options: &RestOptions) -> Step {
    Step {
        url: options.url.clone().unwrap_or_default(),
        method: options.method.clone(),
        body: options.body.clone(),
        json: options.json.clone(),
        expect: options.expect.clone(),
        checks: options.checks.clone(),
        ..Step::default()
    }
}

pub(super) fn client_options(options: RestOptions) -> Result<Arc<ClientOptions>, PrepareError> {
    /// The bodies in memory of all scenarios.
    static HELD: LazyLock<Arc<HeldBodies>> = LazyLock::new(Arc::default);
    let most = usize::try_from(options.max_body.0).unwrap_or(usize::MAX);
    let option = "`--max-body` (`maxBody` in a plan)";
    let budget = BodyBudget::new(most, option, HELD.clone());
    Ok(Arc::new(ClientOptions {
        keepalive: options.connections != Connections::Request,
        max_body: usize::MAX,
        body_budget: Some(budget),
        ..options.handshake.client(&options.connection)?
    }))
}

#[cfg(test)]
mod tests;
