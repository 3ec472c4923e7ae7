//! State that all users of the scenario share.

use std::sync::{Arc, OnceLock};

use lucarne_load::PrepareError;
use lucarne_load::http::{ClientOptions, Trust, Tunnel, trust_only};

use super::certificates::Certificates;
use super::options::ProxyScenarioOptions;
use crate::connection_options::{StatusRange, expected, wrong};
use crate::url_characters;

/// State that all users share.
#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) hosts: Vec<String>,
    pub(super) expect: Vec<StatusRange>,
    pub(super) options: ProxyScenarioOptions,
    pub(super) ready: OnceLock<(Tunnel, Certificates)>,
}

impl SharedState {
    pub(super) fn new(options: ProxyScenarioOptions) -> Result<Self, PrepareError> {
        if options.proxy.is_empty() {
            return Err(wrong("`--proxy` (`proxy` in a plan) is missing"));
        }
        if !options.path.starts_with('/') {
            let path = &options.path;
            return Err(wrong(format!("the path `{path}` must begin with a slash")));
        }
        url_characters::check(&options.path).map_err(|error| wrong(format!("path: {error}")))?;
        let hosts = options.names();
        if hosts.is_empty() {
            return Err(wrong("there are no hosts: `hosts` must be 1 or more"));
        }
        if hosts.len() > 1 && options.host.is_empty() && !options.template.contains("{}") {
            let template = &options.template;
            return Err(wrong(format!(
                "all hosts would have the name `{template}`: write {{}} for the number"
            )));
        }
        Ok(Self {
            hosts,
            expect: expected(&options.expect),
            options,
            ready: OnceLock::new(),
        })
    }

    /// Returns the tunnel and the certificates; `None` before the proxy has been resolved.
    pub(super) fn ready(&self) -> Option<&(Tunnel, Certificates)> {
        self.ready.get()
    }

    pub(super) async fn tunnel(&self) -> Result<Tunnel, PrepareError> {
        let options = ClientOptions {
            // The certificate is checked afterwards, with more checks.
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
        Ok(Tunnel::resolve(&self.options.proxy, Arc::new(options), basic).await?)
    }

    /// Returns the trusted issuers: only the proxy's CA if configured, otherwise the system's
    /// roots. `None` skips the checks of names and issuers.
    pub(super) fn trust(&self) -> Result<Option<Trust>, PrepareError> {
        if self.options.insecure {
            return Ok(None);
        }
        let files = &self.options.ca;
        if files.iter().all(|file| file.as_os_str().is_empty()) {
            return Ok(Some(Trust::system()));
        }
        Ok(Some(trust_only(files)?))
    }
}
