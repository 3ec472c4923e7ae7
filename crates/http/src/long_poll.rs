//! Long polls: `checkpoint?after=SIZE` is answered once the tree is larger than that.
//!
//! Bounded in number, for each client and for all ([`Waiting`]), and in time: whoever waits in vain
//! gets the checkpoint that there is, and may ask again.

use std::sync::Arc;
use std::time::Duration;

use lucarne_log::Log;
use tokio::time::timeout;

use crate::budget::{Client, Exhausted, Waiting};
use crate::signal::Signal;

/// The longest wait: below what proxies allow an answer to take, which is 30 s and more.
pub(crate) const LONGEST: Duration = Duration::from_secs(25);

/// The size in `after=SIZE` of a query; `None` if there is none.
///
/// # Errors
/// If it is no number.
pub(crate) fn after(query: Option<&str>) -> Result<Option<u64>, std::num::ParseIntError> {
    parameter(query, "after").map(str::parse).transpose()
}

/// The value of a parameter in a query, as it stands: numbers need no escapes.
pub(crate) fn parameter<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Waits until the published tree has more than `after` entries, for at most [`LONGEST`], or until
/// the server stops.
///
/// # Errors
/// If the client has as many requests waiting as one may have, or all together have.
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
        // A log that is gone is not waited for, and neither is one that does not grow.
        _ = timeout(LONGEST, grown.wait_for(|size| *size > after)) => {}
        () = closing.raised() => {}
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
