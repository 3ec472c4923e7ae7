//! Stapled OCSP responses (RFC 6066, section 8), which rustls passes only to the verifier.

use std::cell::RefCell;

tokio::task_local! {
    /// Stapled response of the handshake of this task.
    static STAPLE: RefCell<Option<Vec<u8>>>;
}

/// Runs a handshake. Returns its result, and the stapled response: empty if the server stapled
/// none, `None` if no certificate was verified.
pub(super) async fn recorded<T>(handshake: impl Future<Output = T>) -> (T, Option<Vec<u8>>) {
    let handshake = async {
        let result = handshake.await;
        (result, STAPLE.with(RefCell::take))
    };
    STAPLE.scope(RefCell::default(), handshake).await
}

/// Records the stapled response for [`recorded`].
pub(super) fn record(staple: &[u8]) {
    // Fails for a handshake outside `recorded`.
    let _ = STAPLE.try_with(|recorded| recorded.replace(Some(staple.to_vec())));
}
