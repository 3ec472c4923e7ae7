//! State that all users of the scenario share.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lucarne_load::PrepareError;
use lucarne_load::http::{Client, ClientOptions, Endpoint};

use super::options::{Connections, RestOptions, Step};
use super::request::{Compiler, Request};
use super::rows::{DataOptions, Rows, Table};
use super::template::{Escaping, Scope, SharedValues, Template, is_name};
use super::{files, targets};
use crate::connection_options::{ConnectionOptions, wrong};

/// State that all users share.
#[derive(Debug)]
pub(super) struct SharedState {
    /// Values by slot, computed once per iteration.
    pub(super) vars: Vec<(usize, Template)>,
    pub(super) requests: Vec<Request>,
    pub(super) order: Order,
    /// Files of rows: an iteration uses one row of each.
    pub(super) data: Vec<Rows>,
    /// Slots that are cleared when an iteration begins.
    pub(super) forgotten: Vec<usize>,
    pub(super) jitter: Duration,
    pub(super) connections: Connections,
    pub(super) common: Arc<SharedValues>,
    pub(super) servers: Vec<String>,
    pub(super) endpoints: OnceLock<Vec<Arc<Endpoint>>>,
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
            ..Compiler::default()
        };
        let tables = tables(&options, &mut compiler.scope).map_err(wrong)?;
        let mut forgotten = Vec::new();
        let targets = options
            .targets
            .as_ref()
            .filter(|file| !file.as_os_str().is_empty());
        let (order, vars, requests) = match targets {
            Some(file) => (
                Order::Turn,
                Vec::new(),
                of_file(file, &options, &mut compiler).map_err(wrong)?,
            ),
            None => of_plan(&options, &mut compiler, &mut forgotten)?,
        };
        let data = tables.into_iter().map(|(table, slots, options)| {
            let columns = slots.into_iter().enumerate();
            let used = columns.filter(|(_, slot)| compiler.scope.is_used(*slot));
            Rows::new(table, used.collect(), options)
        });
        Ok(Self {
            vars,
            requests,
            order,
            data: data.collect(),
            forgotten,
            jitter: options.jitter.0,
            connections: options.connections,
            common: compiler.scope.shared(seed),
            servers: compiler.servers,
            endpoints: OnceLock::new(),
            options: client_options(options)?,
        })
    }

    /// Returns a client for each server, or none before they are resolved.
    pub(super) fn clients(&self) -> Vec<Client> {
        let endpoints = self.endpoints.get().into_iter().flatten();
        let own = |endpoint: &Arc<Endpoint>| {
            if self.options.resume {
                endpoint.with_own_sessions()
            } else {
                endpoint.clone()
            }
        };
        endpoints
            .map(|endpoint| Client::new(own(endpoint), self.options.clone()))
            .collect()
    }

    pub(super) fn common(&self) -> Arc<SharedValues> {
        self.common.clone()
    }
}

/// Rows of each file of `data`, with the slots of their columns.
type Tables<'o> = Vec<(Table, Vec<usize>, &'o DataOptions)>;

/// Reads the files of `data`.
fn tables<'o>(options: &'o RestOptions, scope: &mut Scope) -> Result<Tables<'o>, String> {
    let each = options.data.iter().map(|(name, data)| {
        if !is_name(name) {
            return Err(format!(
                "data: `{name}` is not a name: letters, digits and `_`"
            ));
        }
        let table = Table::read(&data.file).map_err(|why| format!("data.{name}: {why}"))?;
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
) -> Result<Vec<Request>, String> {
    /// Limit of distinct names in reports.
    const NAMES: usize = 1000;
    let expected = RestOptions {
        targets: None,
        expect: Vec::new(),
        ..options.clone()
    };
    if steps(&expected).is_ok() {
        return Err("`targets` contains the requests: remove `url`, `steps` and `requests`".into());
    }
    let wrong = |why: String| format!("targets: {}: {why}", file.display());
    let content = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let targets = targets::read(&content).map_err(wrong)?;
    let requests = targets
        .into_iter()
        .map(|target| compiler.target(target, &options.expect));
    let mut requests: Vec<Request> = requests.collect::<Result<_, _>>().map_err(wrong)?;
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

/// Order of a plan's requests, its values by slot, and its requests.
type Compiled = (Order, Vec<(usize, Template)>, Vec<Request>);

/// Compiles the requests of a plan. Adds the slots that are cleared at each iteration to
/// `forgotten`.
fn of_plan(
    options: &RestOptions,
    compiler: &mut Compiler<'_>,
    forgotten: &mut Vec<usize>,
) -> Result<Compiled, PrepareError> {
    let (order, steps, key) = steps(options).map_err(wrong)?;
    // Remembered values are declared first, because any request may use them.
    for step in &steps {
        for (name, _) in &step.remember.0 {
            compiler.scope.declare(name).map_err(wrong)?;
        }
        if order == Order::One && !step.capture.0.is_empty() {
            let why =
                "`capture` lasts for one iteration, which is one request here: use `remember`";
            return Err(wrong(format!("{key}: {why}")));
        }
    }
    let mut vars = Vec::new();
    for (name, text) in &options.vars.0 {
        let template = files::text(text)
            .and_then(|text| Template::compile(&text, Escaping::Plain, &mut compiler.scope));
        let template = template.map_err(|why| wrong(format!("vars.{name}: {why}")))?;
        let slot = compiler.scope.declare(name);
        let slot = slot.map_err(|why| wrong(format!("vars: {why}")))?;
        forgotten.push(slot);
        vars.push((slot, template));
    }
    let mut requests: Vec<Request> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let place = match key {
            "" => String::new(),
            key => format!("{key}[{index}]."),
        };
        let mut request = compiler
            .request(step, forgotten)
            .map_err(|why| wrong(format!("{place}{why}")))?;
        if requests.iter().any(|other| other.name == request.name) {
            let name = &request.name;
            let why = format!("{place}name: `{name}` is the name of another request");
            return Err(wrong(why));
        }
        request.think_time = request.think_time.or(options.think_time);
        request.weight += requests.last().map_or(0.0, |last| last.weight);
        requests.push(request);
    }
    Ok((order, vars, requests))
}

/// Returns the requests with their order and the key in the plan.
pub(super) fn steps(options: &RestOptions) -> Result<(Order, Vec<Step>, &'static str), String> {
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
        ([], false) => Err("`--url` (in a plan also `steps` or `requests`) is missing".into()),
        ([], true) => Ok((Order::Steps, vec![one(options)], "")),
        ([(order, list, key)], false) => Ok((*order, (*list).clone(), key)),
        ([(_, _, key)], true) => Err(format!(
            "`url`, `method`, `body`, `json`, `expect` and `checks` describe the one request; with \
             `{key}` they stand in its items"
        )),
        _ => Err("there are both `steps` and `requests`: remove one of them".into()),
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
    let max_body = options.max_body.0 as usize;
    let connecting = ConnectionOptions {
        http: options.http,
        insecure: options.insecure,
        ca: options.ca,
        cert: options.cert,
        key: options.key,
        server_name: options.server_name,
        tls_versions: options.tls_versions,
        cipher_suites: options.cipher_suites,
        groups: options.groups,
        resume: options.resume,
        keepalive: options.connections != Connections::Request,
        timeout: options.timeout,
        connect_timeout: options.connect_timeout,
        resolve: options.resolve,
    };
    let client = Arc::unwrap_or_clone(connecting.options()?);
    Ok(Arc::new(ClientOptions { max_body, ..client }))
}
