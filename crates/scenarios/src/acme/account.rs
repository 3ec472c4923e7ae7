use super::jws::AccountKey;

/// An account at the server.
pub(super) struct Account {
    pub(super) key: AccountKey,
    /// The server's name for it (`kid`).
    pub(super) url: String,
}
