//! State that all users of the scenario share.

use std::sync::{Arc, OnceLock};

use lucarne_load::PrepareError;
use lucarne_load::http::{ClientOptions, Endpoint};
use tokio::sync::OnceCell;
use url::{Position, Url};

use super::account::Account;
use super::certificate;
use super::directory::Directory;
use super::nonces::NoncePool;
use super::options::{AcmeOptions, Flow};
use super::rate_limits::RateLimits;
use super::responder::Responder;
use crate::connection_options::wrong;
use crate::rest::Header;

/// State that all users share.
pub(super) struct SharedState {
    pub(super) options: AcmeOptions,
    pub(super) seed: u64,
    /// Distinguishes the names of this run from the names of other runs.
    pub(super) run: u32,
    /// Scheme, host and port of the server.
    pub(super) origin: String,
    /// Path of the directory.
    pub(super) directory_path: String,
    pub(super) nonces: NoncePool,
    pub(super) limits: RateLimits,
    pub(super) responder: Arc<Responder>,
    /// The account, if all users share one.
    pub(super) account: OnceCell<Arc<Account>>,
    /// The directory, which all users share if certificates are configured.
    pub(super) directory: OnceLock<Directory>,
    /// Renewal ids of the configured certificates.
    pub(super) ids: Vec<String>,
    pub(super) client: Arc<ClientOptions>,
    pub(super) endpoint: OnceLock<Arc<Endpoint>>,
}

impl SharedState {
    pub(super) fn new(options: AcmeOptions, seed: u64) -> Result<Self, PrepareError> {
        if options.directory.is_empty() {
            return Err(wrong("`--directory` (`directory` in a plan) is missing"));
        }
        if options.names == 0 {
            return Err(wrong(
                "`--names` is 0: a certificate needs at least one name",
            ));
        }
        let url = Url::parse(&options.directory)
            .map_err(|error| wrong(format!("`{}` is not a URL: {error}", options.directory)))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(wrong(format!("`{url}` is not the URL of a server")));
        }
        // Two runs with one seed must use different names, so the names include the time.
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        Ok(Self {
            run: (seed ^ now.as_millis() as u64) as u32,
            seed,
            origin: url[..Position::BeforePath].to_owned(),
            directory_path: url[Position::BeforePath..Position::AfterQuery].to_owned(),
            nonces: NoncePool::default(),
            limits: RateLimits::default(),
            responder: Arc::new(Responder::new(options.challenge)?),
            account: OnceCell::new(),
            directory: OnceLock::new(),
            ids: given_ids(&options)?,
            client: Arc::new(ClientOptions {
                max_body: 1 << 20,
                ..options.connection.client()
            }),
            endpoint: OnceLock::new(),
            options,
        })
    }

    /// Returns the renewal id for this iteration, if certificates are configured.
    pub(super) fn given_id(&self, number: u64) -> Option<String> {
        let index = number.checked_rem(self.ids.len() as u64)?;
        self.ids.get(index as usize).cloned()
    }

    /// Returns the headers of a request: first `own`, then the configured headers.
    pub(super) fn headers<'a>(
        &'a self,
        own: Option<(&'a str, &'a str)>,
    ) -> Vec<(&'a str, &'a str)> {
        let given = self.options.headers.iter();
        let given = given.map(|Header(name, value)| (name.as_str(), value.as_str()));
        own.into_iter().chain(given).collect()
    }

    /// Returns whether the flow uses challenges.
    pub(super) fn enrols(&self) -> bool {
        match self.options.flow {
            Flow::Enrol => true,
            Flow::RenewalInfo => self.ids.is_empty(),
            Flow::Probe | Flow::Burst => false,
        }
    }
}

pub(super) fn given_ids(options: &AcmeOptions) -> Result<Vec<String>, PrepareError> {
    let file = options.certificates.as_deref();
    let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) else {
        return Ok(Vec::new());
    };
    let failed = |words: &dyn std::fmt::Display| {
        let file = file.display();
        wrong(format!("reading the certificates in {file}: {words}"))
    };
    let pem = std::fs::read(file).map_err(|error| failed(&error))?;
    let certificates = certificate::read_pem(&pem).map_err(|words| failed(&words))?;
    let ids = certificates.iter().map(|der| certificate::renewal_id(der));
    let ids: Option<Vec<_>> = ids.collect();
    ids.ok_or_else(|| failed(&"a certificate has no authority key identifier"))
}
