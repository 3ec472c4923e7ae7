//! Keeps `log.v3.json` up to date in a log's directory, for whatever serves it
//! there instead of us.

use std::sync::Arc;
use std::time::Duration;

use lucarne_log::{Log, State};

/// The time between two comparisons of the description with the published one.
const INTERVAL: Duration = Duration::from_secs(5);

/// Publishes the description once the log is open, and after each change, until the log is closed.
pub(crate) async fn keep(log: Arc<Log>) {
    let mut published = Vec::new();
    loop {
        let state = log.state();
        if matches!(state, State::Closed) {
            return;
        }
        let open = matches!(state, State::Running | State::Retired);
        let json = lucarne_http::log_json(&log);
        if open && json != published {
            match log.publish_log_json(json.clone().into()).await {
                Ok(()) => published = json,
                Err(error) => tracing::warn!(log = log.config().shortname, %error, "log.v3.json"),
            }
        }
        let pause = if open { INTERVAL } else { INTERVAL / 10 };
        tokio::time::sleep(pause).await;
    }
}
