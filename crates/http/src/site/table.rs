//! The table of logs and routes.

use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use lucarne_log::Log;

use super::served_log::{ServedLog, redirect};
use crate::cosigner::{self, CosignerService};
use crate::mirror::MirrorService;
use crate::monitoring::not_yet;
use crate::reply::Response;
use crate::route::{Prefix, PrefixError, Resource, Roles, Routes};
use crate::witness::WitnessService;

/// Number of the first cosigner among the routes, which no log has.
const COSIGNERS: usize = usize::MAX - 1;

/// The witness and the mirror of a site.
#[derive(Clone, Default)]
pub struct Cosigners {
    /// The witness, if any.
    pub witness: Option<Arc<WitnessService>>,
    /// The mirror, if any.
    pub mirror: Option<Arc<MirrorService>>,
}

impl Cosigners {
    /// Returns the witness and the mirror.
    pub(crate) fn services(&self) -> impl Iterator<Item = &dyn CosignerService> {
        let witness = self.witness.as_deref().map(|it| it as &dyn CosignerService);
        let mirror = self.mirror.as_deref().map(|it| it as &dyn CosignerService);
        witness.into_iter().chain(mirror)
    }
}

/// The logs of a site with their routes.
pub(super) struct Table {
    /// All logs. Logs that are being removed are at the end.
    pub(super) logs: Vec<Arc<ServedLog>>,
    /// The number of logs that are not being removed.
    pub(super) listed: usize,
    pub(super) cosigners: Cosigners,
    pub(super) routes: Routes,
}

/// The resource of a request.
pub(super) enum Found<'t> {
    Log(&'t ServedLog, Resource),
    Cosigner(&'t dyn CosignerService, cosigner::Resource),
}

impl Table {
    /// Returns the logs that are not being removed, in the order of the configuration.
    pub(super) fn logs(&self) -> impl Iterator<Item = &Log> {
        let listed = self.logs.iter().take(self.listed);
        listed.map(|served| &*served.log)
    }

    /// Returns the prefix with the page of all errors, for a response about `found`.
    pub(super) fn errors<'t>(&'t self, found: Option<&Found<'t>>) -> &'t str {
        let log = |served: &'t ServedLog| served.log.config().submission_prefix.as_str();
        match (found, self.logs.first()) {
            (Some(Found::Log(served, _)), _) => log(served),
            (Some(Found::Cosigner(service, _)), _) => &service.served().submission_prefix,
            (None, Some(first)) => log(first),
            (None, None) => {
                let mut services = self.cosigners.services();
                let first = services.next();
                first.map_or("/", |first| &first.served().submission_prefix)
            }
        }
    }

    /// Returns the resource of a request. `None` for a path of the site itself, and for an unknown
    /// path.
    pub(super) fn find(&self, parts: &Parts) -> Option<Found<'_>> {
        let path = parts.uri.path();
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let host = authority.or_else(|| parts.headers.get(HOST)?.to_str().ok());
        let found = self.routes.find(path, host)?;
        let of_cosigner = found.log.checked_sub(COSIGNERS);
        // A log at the root of its host does not hide the site's own paths. The list of logs is
        // useless if there is only one log.
        let own = match path {
            "/" => self.listed > usize::from(of_cosigner.is_none()),
            "/metrics" | "/health" | "/robots.txt" | "/logs.v3.json" | "/operator.json" => true,
            _ => false,
        };
        if let Some(n) = of_cosigner {
            let service = self.cosigners.services().nth(n).filter(|_| !own)?;
            let resource = service.served().resources.parse(found.rest, found.roles);
            return Some(Found::Cosigner(service, resource));
        }
        let resource = Resource::parse(found.rest, found.roles);
        if own
            && matches!(
                resource,
                Resource::Page | Resource::Redirect | Resource::NotFound(_)
            )
        {
            return None;
        }
        Some(Found::Log(self.logs.get(found.log)?, resource))
    }

    /// Returns 404 with the existing paths, or 301 if only the slash is missing.
    pub(super) fn nothing(&self, parts: &Parts) -> Response {
        let path = parts.uri.path();
        let slashed = format!("{path}/");
        if let Some(found) = self.routes.find(&slashed, None)
            && found.rest.is_empty()
            && let Ok(location) = HeaderValue::try_from(slashed)
        {
            return redirect(StatusCode::MOVED_PERMANENTLY, location);
        }
        let mut words = String::from("not found; the logs of this server:\n");
        for log in self.logs() {
            let config = log.config();
            words += &format!("{}: {}\n", config.shortname, config.monitoring_prefix);
        }
        for service in self.cosigners.services() {
            let served = service.served();
            words += &format!("{}: {}\n", served.resources.noun, served.submission_prefix);
        }
        not_yet(&words)
    }
}

pub(super) fn routes(logs: &[Arc<Log>], cosigners: &Cosigners) -> Result<Routes, PrefixError> {
    let mut routes = Routes::default();
    let services: Vec<_> = cosigners.services().map(CosignerService::served).collect();
    let noun = |n: usize| {
        services
            .get(n.checked_sub(COSIGNERS)?)
            .map(|it| it.resources.noun)
    };
    let name = |n: usize| match logs.get(n) {
        Some(log) => format!("log {}", log.config().shortname),
        None => format!("the {}", noun(n).unwrap_or_default()),
    };
    for (n, log) in logs.iter().enumerate() {
        let config = log.config();
        let submission = Prefix::parse(&config.submission_prefix)?;
        routes.add(submission, Roles::SUBMISSION, n, name)?;
        let monitoring = Prefix::parse(&config.monitoring_prefix)?;
        routes.add(monitoring, Roles::MONITORING, n, name)?;
        if let Some(url) = &config.also_at {
            let roles = Roles::SUBMISSION.or(Roles::MONITORING);
            routes.add(Prefix::parse(url)?, roles, n, name)?;
        }
    }
    for (n, served) in services.iter().enumerate() {
        let submission = Prefix::parse(&served.submission_prefix)?;
        routes.add(submission, Roles::SUBMISSION, COSIGNERS + n, name)?;
        let monitoring = Prefix::parse(&served.monitoring_prefix)?;
        routes.add(monitoring, Roles::MONITORING, COSIGNERS + n, name)?;
    }
    Ok(routes)
}
