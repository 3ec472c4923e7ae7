//! The ways to lie.

/// How the proxy lies. Where nothing else is said, one answer in three of the
/// kind is a lie, and all others pass unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// None.
    None,
    /// Every submission's answer comes 400 ms late.
    Delayed,
    /// The submission reaches the log, the answer never comes.
    Dropped,
    /// The connection is reset instead of an answer to a submission.
    Reset,
    /// An SCT with a bit of its signature flipped.
    SctSignature,
    /// An SCT by the id of another log.
    SctLogId,
    /// A correctly signed SCT with the index of another entry just before.
    SctIndex,
    /// A correctly signed SCT with an index that another submission was promised.
    SctIndexTwice,
    /// A correctly signed SCT of another millisecond than the entry's.
    SctTimestamp,
    /// A correctly signed SCT of tomorrow.
    SctTomorrow,
    /// A correctly signed SCT for a submission made before, a millisecond off
    /// the first.
    DuplicateChanged,
    /// A correctly signed SCT for an entry that the log never got, at a place
    /// that another entry has.
    Forgotten,
    /// The same at a place that the log will not reach.
    NeverMerged,
    /// `<html>` with status 200 instead of an SCT.
    Html,
    /// 400 for a submission that is as it should be.
    Refused,
    /// 503 without a Retry-After.
    Unavailable,
    /// 503 with a Retry-After of one second.
    RetryAfter,
    /// The same instead of every SCT.
    PutsOff,
    /// An SCT for a certificate outside of the log's window.
    TakesOutsideWindow,
    /// An SCT for a chain to a root that the log does not accept.
    TakesUnknownRoot,
    /// An SCT for a certificate whose signature does not verify.
    TakesBadSignature,
    /// An SCT for a precertificate on add-chain, and for a certificate on add-pre-chain.
    TakesWrongEndpoint,
    /// 500 for what is no submission.
    FailsOnNonsense,
    /// get-roots without any certificate.
    RootsMissing,
    /// `<html>` with status 200 for a file that does not exist.
    UnknownPath,
    /// The same checkpoint again and again.
    StaleCheckpoint,
    /// Correctly signed, the size of the one before with another root.
    ForkedCheckpoint,
    /// Correctly signed, of a size not seen before, with a root of its own.
    InconsistentCheckpoint,
    /// A checkpoint of the log's youth, after later ones.
    ShrunkenCheckpoint,
    /// Correctly signed, for another origin.
    CheckpointOrigin,
    /// A checkpoint with a bit of its signature flipped.
    CheckpointSignature,
    /// Every level-0 tile has a wrong hash.
    HashTile,
    /// Every level-0 tile lacks its last byte.
    HashTileCut,
    /// No level-0 tile is to be had.
    HashTileMissing,
    /// Every data tile has a changed certificate.
    DataTile,
    /// No issuer is to be had.
    IssuerMissing,
    /// Every issuer has a bit changed.
    IssuerWrong,
    /// Data tiles claim to be gzip, and are not.
    Gzip,
    /// Data tiles have another precertificate beside each entry.
    Precertificate,
    /// Data tiles name chains in another order.
    ChainShuffled,
    /// Data tiles name chains without their roots.
    ChainCut,
    /// Data tiles are said to be text.
    ContentType,
    /// Nothing says that scripts may read it.
    NoCors,
    /// get-roots is said to be text.
    RootsAsText,
    /// After some requests, nothing is answered any more.
    GoesAway,
    /// Checkpoints may be cached for ever.
    CheckpointCached,
    /// Hash tiles may not be cached.
    TileUncached,
    /// Correctly signed, checkpoints are ten seconds older than they should be.
    OldClock,
    /// Correctly signed, larger trees have the timestamp of the first.
    FrozenClock,
    /// Checkpoints with a bit of their signature flipped, before the run already.
    SignatureAtStart,
}
