//! The table of logs and routes.

use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use lucarne_log::Log;

use super::served_log::{ServedLog, redirect};
use crate::mirror::{MirrorResource, MirrorService};
use crate::monitoring::not_yet;
use crate::reply::Response;
use crate::route::{Prefix, PrefixError, Resource, Roles, Routes};
use crate::witness::{WitnessResource, WitnessService};

/// Number of the witness among the routes, which no log has.
const WITNESS: usize = usize::MAX;

/// Number of the mirror among the routes.
const MIRROR: usize = usize::MAX - 1;

/// The witness and the mirror of a site.
#[derive(Clone, Default)]
pub struct Cosigners {
    /// The witness, if any.
    pub witness: Option<Arc<WitnessService>>,
    /// The mirror, if any.
    pub mirror: Option<Arc<MirrorService>>,
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
    Witness(&'t WitnessService, WitnessResource),
    Mirror(&'t MirrorService, MirrorResource),
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
        let first = self.logs.first().map(|served| &**served);
        let Cosigners { witness, mirror } = &self.cosigners;
        match (found, first, witness.as_deref()) {
            (Some(Found::Log(served, _)), ..) => log(served),
            (Some(Found::Witness(witness, _)), ..) => &witness.submission_prefix,
            (None, Some(first), _) => log(first),
            (Some(Found::Mirror(mirror, _)), ..) => &mirror.submission_prefix,
            (None, None, Some(witness)) => &witness.submission_prefix,
            (None, None, None) => match mirror {
                Some(mirror) => &mirror.submission_prefix,
                None => "/",
            },
        }
    }

    /// Returns the resource of a request. `None` for a path of the site itself, and for an unknown
    /// path.
    pub(super) fn find(&self, parts: &Parts) -> Option<Found<'_>> {
        let path = parts.uri.path();
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let host = authority.or_else(|| parts.headers.get(HOST)?.to_str().ok());
        let found = self.routes.find(path, host)?;
        let of_log = ![WITNESS, MIRROR].contains(&found.log);
        // A log at the root of its host does not hide the site's own paths. The list of logs is
        // useless if there is only one log.
        let own = match path {
            "/" => self.listed > usize::from(of_log),
            "/metrics" | "/health" | "/robots.txt" | "/logs.v3.json" | "/operator.json" => true,
            _ => false,
        };
        if found.log == WITNESS {
            let witness = self.cosigners.witness.as_deref().filter(|_| !own)?;
            let resource = WitnessResource::parse(found.rest, found.roles);
            return Some(Found::Witness(witness, resource));
        }
        if found.log == MIRROR {
            let mirror = self.cosigners.mirror.as_deref().filter(|_| !own)?;
            let resource = MirrorResource::parse(found.rest, found.roles);
            return Some(Found::Mirror(mirror, resource));
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
        if let Some(witness) = &self.cosigners.witness {
            words += &format!("witness: {}\n", witness.submission_prefix);
        }
        if let Some(mirror) = &self.cosigners.mirror {
            words += &format!("mirror: {}\n", mirror.submission_prefix);
        }
        not_yet(&words)
    }
}

pub(super) fn routes(logs: &[Arc<Log>], cosigners: &Cosigners) -> Result<Routes, PrefixError> {
    let mut routes = Routes::default();
    let name = |n: usize| match logs.get(n) {
        Some(log) => format!("log {}", log.config().shortname),
        None if n == MIRROR => "the mirror".to_owned(),
        None => "the witness".to_owned(),
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
    if let Some(witness) = &cosigners.witness {
        let submission = Prefix::parse(&witness.submission_prefix)?;
        routes.add(submission, Roles::SUBMISSION, WITNESS, name)?;
        let monitoring = Prefix::parse(&witness.monitoring_prefix)?;
        routes.add(monitoring, Roles::MONITORING, WITNESS, name)?;
    }
    if let Some(mirror) = &cosigners.mirror {
        let submission = Prefix::parse(&mirror.submission_prefix)?;
        routes.add(submission, Roles::SUBMISSION, MIRROR, name)?;
        let monitoring = Prefix::parse(&mirror.monitoring_prefix)?;
        routes.add(monitoring, Roles::MONITORING, MIRROR, name)?;
    }
    Ok(routes)
}
