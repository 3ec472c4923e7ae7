use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::http::Endpoint;
use lucarne_load::{Failure, OwnMetrics, Part, PrepareError, Recorder, Scenario, VirtualUser};
use parking_lot::Mutex;

use super::options::RestOptions;
use super::shared_state::SharedState;
use super::user::RestUser;
use crate::connection_options::reach;

/// Builds the scenario from `options`, with `seed` for its random choices.
///
/// # Errors
/// If options are invalid, templates cannot be parsed, or values are unknown.
pub fn build(options: RestOptions, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    Ok(Arc::new(Rest {
        shared: Arc::new(SharedState::new(options, seed)?),
        run_user: Mutex::new(None),
    }))
}

struct Rest {
    shared: Arc<SharedState>,
    /// User of `setup` and `teardown`.
    run_user: Mutex<Option<RestUser>>,
}

#[async_trait]
impl Scenario for Rest {
    fn metrics(&self) -> Option<OwnMetrics> {
        Some(self.shared.metrics)
    }

    fn checks(&self) -> Option<Vec<&'static str>> {
        let requests = self.shared.requests.iter();
        let checks =
            requests.flat_map(|request| request.checks.names().chain([request.status_check]));
        Some(checks.collect())
    }

    async fn prepare(&self) -> Result<(), PrepareError> {
        let shared = &self.shared;
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
        Box::new(RestUser::new(self.shared.clone(), number, recorder))
    }

    fn divide(&self, part: Part) {
        self.shared.common.divide(part);
    }

    async fn set_up(&self, recorder: Recorder) -> Result<(), PrepareError> {
        let phases = &self.shared.phases;
        if phases.once_per_run().is_empty() {
            return Ok(());
        }
        let mut user = RestUser::of_run(self.shared.clone(), &recorder);
        let done = user.perform(&phases.setup, &recorder).await;
        done.map_err(|failure| PrepareError::Faulty {
            check: failure.kind,
            detail: failure.detail,
        })?;
        let _ = phases.session.set(user.session());
        user.close();
        *self.run_user.lock() = Some(user);
        Ok(())
    }

    async fn tear_down(&self, recorder: Recorder) -> Result<(), Failure> {
        let user = self.run_user.lock().take();
        match user {
            Some(mut user) => user.perform(&self.shared.phases.teardown, &recorder).await,
            None => Ok(()),
        }
    }

    async fn reached(&self) -> Result<(), Failure> {
        Err(self.shared.phases.failed().await)
    }
}
