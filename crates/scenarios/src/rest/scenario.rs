use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::http::Endpoint;
use lucarne_load::{OwnMetrics, PrepareError, Recorder, Scenario, VirtualUser};

use super::options::RestOptions;
use super::shared_state::SharedState;
use super::user::RestUser;
use crate::connection_options::reach;

/// Builds the scenario from `options`, with `seed` for its random choices.
///
/// # Errors
/// If options are invalid, templates cannot be parsed, or values are unknown.
pub fn build(options: RestOptions, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    Ok(Arc::new(Rest(Arc::new(SharedState::new(options, seed)?))))
}

struct Rest(Arc<SharedState>);

#[async_trait]
impl Scenario for Rest {
    fn metrics(&self) -> Option<OwnMetrics> {
        Some(&[])
    }

    fn checks(&self) -> Option<Vec<&'static str>> {
        let requests = self.0.requests.iter();
        let checks =
            requests.flat_map(|request| request.checks.names().chain([request.status_check]));
        Some(checks.collect())
    }

    async fn prepare(&self) -> Result<(), PrepareError> {
        let shared = &self.0;
        let mut endpoints = Vec::new();
        for server in &shared.servers {
            endpoints.push(Endpoint::resolve(server, &shared.options).await?);
        }
        let _ = shared.endpoints.set(endpoints);
        for mut client in shared.clients() {
            reach(&mut client).await?;
        }
        Ok(())
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(RestUser::new(self.0.clone(), number, recorder))
    }
}
