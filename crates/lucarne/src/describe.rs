//! Keeps `log.v3.json` up to date in a log's directory, for whatever serves it
//! there instead of us.

use std::sync::Arc;
use std::time::Duration;

use lucarne_log::{Log, State};

/// The time after which the log is asked again whether its description has changed.
const INTERVAL: Duration = Duration::from_secs(5);

/// Publishes the description once the log is open, and whenever it changes.
pub(crate) async fn keep(log: Arc<Log>) {
    let mut published = Vec::new();
    loop {
        let open = matches!(log.state(), State::Running | State::Retired);
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
