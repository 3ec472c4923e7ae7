//! Long polls: `checkpoint?after=SIZE` returns a checkpoint of a larger tree once there is one.
//!
//! Long polls are limited in number, for each client and in total ([`Waiting`]), and in time. After
//! the timeout a client gets the current checkpoint and may poll again.

use std::sync::Arc;
use std::time::Duration;

use lucarne_log::Log;
use tokio::time::timeout;

use crate::budget::{Client, Exhausted, Waiting};
use crate::signal::Signal;

/// Maximum wait: shorter than the timeouts of proxies, which are 30 s or more.
pub(crate) const LONGEST: Duration = Duration::from_secs(25);

/// Returns the size in `after=SIZE` of a query; `None` if the query has no such parameter.
///
/// # Errors
/// If the value is not a number.
pub(crate) fn after(query: Option<&str>) -> Result<Option<u64>, std::num::ParseIntError> {
    parameter(query, "after").map(str::parse).transpose()
}

/// Returns the value of a parameter in a query. The value is not unescaped, because numbers need no
/// escapes.
pub(crate) fn parameter<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Waits until the published tree has more than `after` entries, for at most [`LONGEST`], or until
/// the server stops or the client closes its side of the connection.
///
/// # Errors
/// If the client or all clients together have too many waiting requests.
pub(crate) async fn wait(
    log: &Log,
    after: u64,
    client: &Arc<Client>,
    closing: &Signal,
) -> Result<(), Exhausted> {
    let mut grown = log.grown();
    if *grown.borrow() > after {
        return Ok(());
    }
    let _waiting = Waiting::enter(client)?;
    tokio::select! {
        // Returns at once if the log was dropped, and after the timeout if the log does not grow.
        _ = timeout(LONGEST, grown.wait_for(|size| *size > after)) => {}
        () = closing.raised() => {}
        () = client.activity.unattended() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_queries() {
        for (query, wanted) in [
            (None, Ok(None)),
            (Some(""), Ok(None)),
            (Some("after=7"), Ok(Some(7))),
            (Some("x=1&after=0"), Ok(Some(0))),
            (Some("after"), Ok(None)),
            (Some("after="), Err(())),
            (Some("after=-1"), Err(())),
            (Some("after=7x"), Err(())),
        ] {
            assert_eq!(after(query).map_err(|_| ()), wanted, "{query:?}");
        }
    }
}
