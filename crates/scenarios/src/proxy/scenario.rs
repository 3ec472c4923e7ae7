use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::{Failure, Note, OwnMetrics, PrepareError, Recorder, Scenario, VirtualUser};

use super::certificates::{self, Certificates};
use super::options::ProxyScenarioOptions;
use super::shared_state::SharedState;
use super::user::{ProxyUser, STATUS};

/// Builds the scenario from `options`.
///
/// # Errors
/// If the options are invalid.
pub fn build(options: ProxyScenarioOptions, _seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    Ok(Arc::new(ProxyLoad(Arc::new(SharedState::new(options)?))))
}

struct ProxyLoad(Arc<SharedState>);

#[async_trait]
impl Scenario for ProxyLoad {
    fn metrics(&self) -> Option<OwnMetrics> {
        Some(&[
            ("proxy_certificates", "counter"),
            ("proxy_connect_duration", "trend"),
        ])
    }

    fn checks(&self) -> Option<Vec<&'static str>> {
        Some([&[STATUS], &certificates::ALL[..]].concat())
    }

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

    fn purpose(&self) -> &'static str {
        "a response through the proxy"
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
