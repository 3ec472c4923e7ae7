use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::http::{Endpoint, trust};
use lucarne_load::{Note, OwnMetrics, PrepareError, Recorder, Scenario, VirtualUser};

use super::certificate::{self, Examiner};
use super::options::TlsScenarioOptions;
use super::shared_state::SharedState;
use super::user::{RESUMED, STATUS, TlsUser};
use crate::connection_options::reach;

/// Builds the scenario from `options`, with `seed` for its random choices.
///
/// # Errors
/// If the options are invalid.
pub fn build(options: TlsScenarioOptions, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    Ok(Arc::new(TlsLoad(Arc::new(SharedState::new(
        options, seed,
    )?))))
}

struct TlsLoad(Arc<SharedState>);

#[async_trait]
impl Scenario for TlsLoad {
    fn metrics(&self) -> Option<OwnMetrics> {
        Some(&[])
    }

    async fn prepare(&self) -> Result<(), PrepareError> {
        let shared = &self.0;
        let endpoint = Endpoint::resolve(&shared.options.url, &shared.client).await?;
        let name = endpoint.tls.as_ref().map(|(_, name)| name.clone());
        let http = &shared.options.connection.http;
        let trust = match (name, http.insecure) {
            (Some(name), false) => Some((name, trust(&http.ca)?)),
            _ => None,
        };
        let examiner = Examiner::new(&shared.options, trust);
        let _ = shared.ready.set((endpoint, examiner));
        match shared.client() {
            Some(mut client) => reach(&mut client).await,
            None => Ok(()),
        }
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(TlsUser::new(self.0.clone(), number, recorder))
    }

    fn purpose(&self) -> &'static str {
        match self.0.request {
            Some(_) => "a response",
            None => "a TLS handshake",
        }
    }

    fn checks(&self) -> Option<Vec<&'static str>> {
        Some([&[RESUMED, STATUS], &certificate::ALL[..]].concat())
    }

    fn warnings(&self) -> &'static [&'static str] {
        certificate::WARNINGS
    }

    async fn finish(&self, _: Recorder) -> Vec<Note> {
        let handshakes = self.0.handshakes.lock();
        let lines = handshakes
            .iter()
            .map(|(how, count)| format!("{count} {how}"));
        let lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            Vec::new()
        } else {
            vec![Note {
                title: format!("Handshakes with {}", self.0.options.url),
                lines,
            }]
        }
    }
}
