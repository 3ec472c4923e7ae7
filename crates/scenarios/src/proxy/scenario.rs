use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use lucarne_load::http::{ClientOptions, EndpointError, Tunnel};
use lucarne_load::{Failure, Note, PrepareError, Recorder, Scenario, VirtualUser};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::certificates::Certificates;
use super::options::ProxyScenarioOptions;
use super::user::ProxyUser;
use crate::connection_options::{StatusRange, wrong};

/// The scenario that `options` describe.
///
/// # Errors
/// Options that make no sense.
pub fn build(options: ProxyScenarioOptions, _seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    Ok(Arc::new(ProxyLoad(Arc::new(Shared::new(options)?))))
}

struct ProxyLoad(Arc<Shared>);

/// State that all users share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) hosts: Vec<String>,
    pub(super) expect: Vec<StatusRange>,
    pub(super) options: ProxyScenarioOptions,
    ready: OnceLock<(Tunnel, Certificates)>,
}

impl Shared {
    fn new(options: ProxyScenarioOptions) -> Result<Self, PrepareError> {
        if options.proxy.is_empty() {
            return Err(wrong("`--proxy` (`proxy` in a plan) is missing"));
        }
        if !options.path.starts_with('/') {
            let path = &options.path;
            return Err(wrong(format!(
                "the path `{path}` does not begin with a slash"
            )));
        }
        let hosts = options.names();
        if hosts.is_empty() {
            return Err(wrong("there are no hosts: `hosts` must be 1 or more"));
        }
        if hosts.len() > 1 && options.host.is_empty() && !options.template.contains("{}") {
            let template = &options.template;
            return Err(wrong(format!(
                "the hosts would all be called `{template}`: put {{}} where the number goes"
            )));
        }
        let usual = || ["2xx", "3xx"].iter().filter_map(|text| text.parse().ok());
        Ok(Self {
            hosts,
            expect: match options.expect.is_empty() {
                true => usual().collect(),
                false => options.expect.clone(),
            },
            options,
            ready: OnceLock::new(),
        })
    }

    /// The way to the hosts, and what is known of them; `None` before the proxy
    /// has been found.
    pub(super) fn ready(&self) -> Option<&(Tunnel, Certificates)> {
        self.ready.get()
    }

    async fn tunnel(&self) -> Result<Tunnel, PrepareError> {
        let options = ClientOptions {
            // The certificate is looked at afterwards, and in more ways.
            insecure: true,
            timeout: self.options.timeout.0,
            connect_timeout: self.options.connect_timeout.0,
            keepalive: false,
            ..ClientOptions::default()
        };
        let user = self.options.proxy_user.as_deref();
        let basic = user.map(|user| {
            let encoded = base64_simd::STANDARD.encode_to_string(user);
            format!("Basic {encoded}")
        });
        let tunnel = Tunnel::resolve(&self.options.proxy, Arc::new(options), basic).await;
        tunnel.map_err(|error| match error {
            EndpointError::Dns { .. } => PrepareError::Unreachable(error.to_string()),
            error => wrong(error.to_string()),
        })
    }

    /// The trusted issuer: the proxy's CA, and nobody else, if it is given.
    fn trust(&self) -> Result<Option<RootCertStore>, PrepareError> {
        if self.options.insecure {
            return Ok(None);
        }
        let Some(file) = &self.options.ca else {
            return Ok(Some(lucarne_load::http::system_roots()));
        };
        let unusable = |error: &dyn std::fmt::Display| {
            let file = file.display();
            wrong(format!("cannot use the certificates in {file}: {error}"))
        };
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(file).map_err(|e| unusable(&e))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            roots.add(certificate).map_err(|error| unusable(&error))?;
        }
        match roots.is_empty() {
            true => Err(unusable(&"there is no PEM certificate in it")),
            false => Ok(Some(roots)),
        }
    }
}

#[async_trait]
impl Scenario for ProxyLoad {
    async fn prepare(&self) -> Result<(), PrepareError> {
        let shared = &self.0;
        let tunnel = shared.tunnel().await?;
        let (hosts, once) = (shared.hosts.len(), shared.options.once);
        let certificates = Certificates::new(hosts, shared.trust()?, once);
        let reached = tunnel.reach().await;
        let _ = shared.ready.set((tunnel, certificates));
        reached.map_err(|Failure { detail, .. }| {
            let proxy = &shared.options.proxy;
            PrepareError::Unreachable(format!("the proxy {proxy} cannot be reached: {detail}"))
        })
    }

    fn user(&self, _: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(ProxyUser::new(self.0.clone(), recorder.base()))
    }

    async fn finish(&self, _: Recorder) -> Vec<Note> {
        let Some((_, certificates)) = self.0.ready() else {
            return Vec::new();
        };
        let hosts = match &self.0.hosts[..] {
            [host] => host.clone(),
            hosts => format!("{} hosts", hosts.len()),
        };
        vec![Note {
            title: format!("Certificates of {}", self.0.options.proxy),
            lines: vec![format!("{} for {hosts}", certificates.count())],
        }]
    }
}
