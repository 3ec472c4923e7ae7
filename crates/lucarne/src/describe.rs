//! Keeps `log.v3.json` in a log's directory up to date for external web servers.

use std::sync::Arc;
use std::time::Duration;

use lucarne_log::{Log, State};

/// Interval at which the description is compared with the published one.
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
                Err(error) => {
                    tracing::warn!(
                        log = log.config().shortname,
                        %error,
                        "cannot publish log.v3.json"
                    );
                }
            }
        }
        let pause = if open { INTERVAL } else { INTERVAL / 10 };
        tokio::time::sleep(pause).await;
    }
}
