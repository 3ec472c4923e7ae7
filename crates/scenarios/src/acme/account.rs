use super::jws::AccountKey;

/// An account at the server.
pub(super) struct Account {
    pub(super) key: AccountKey,
    /// The account's URL at the server (`kid`).
    pub(super) url: String,
}
