//! The faults of the proxy.

/// A fault of the proxy. By default, every third response of the affected kind is wrong, and all
/// others are forwarded unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// The response to every submission is 400 ms late.
    Delayed,
    /// The submission reaches the log, but the response never arrives.
    Dropped,
    /// The connection is reset instead of a response to a submission.
    Reset,
    /// An SCT with a bit of its signature flipped.
    SctSignature,
    /// An SCT with the ID of another log.
    SctLogId,
    /// A correctly signed SCT with the index of the entry before.
    SctIndex,
    /// A correctly signed SCT with the index of another SCT.
    SctIndexTwice,
    /// A correctly signed SCT with a timestamp one millisecond before the entry's.
    SctTimestamp,
    /// A correctly signed SCT with a timestamp one day in the future.
    SctTomorrow,
    /// A correctly signed SCT for a duplicate, with a timestamp one millisecond before the first.
    DuplicateChanged,
    /// A correctly signed SCT for an entry that the log never received, with the index of another
    /// entry.
    Forgotten,
    /// A correctly signed SCT for an entry that the log never received, with an index that the log
    /// will not reach.
    NeverMerged,
    /// `<html>` with status 200 instead of an SCT.
    Html,
    /// 400 for a valid submission.
    Refused,
    /// 503 without a Retry-After.
    Unavailable,
    /// 503 with a Retry-After of one second.
    RetryAfter,
    /// 503 with a Retry-After of one second for every submission.
    PutsOff,
    /// An SCT for a certificate outside the log's window.
    TakesOutsideWindow,
    /// An SCT for a chain to a root that the log does not accept.
    TakesUnknownRoot,
    /// An SCT for a certificate whose signature does not verify.
    TakesBadSignature,
    /// An SCT for a precertificate on add-chain, and for a certificate on add-pre-chain.
    TakesWrongEndpoint,
    /// 500 for an invalid submission.
    FailsOnNonsense,
    /// `get-roots` without any certificate.
    RootsMissing,
    /// `<html>` with status 200 for a file that does not exist.
    UnknownPath,
    /// The same checkpoint in every response.
    StaleCheckpoint,
    /// A correctly signed checkpoint with the previous size and another root.
    ForkedCheckpoint,
    /// A correctly signed checkpoint with a new size and another root.
    InconsistentCheckpoint,
    /// An early checkpoint after later ones.
    ShrunkenCheckpoint,
    /// A correctly signed checkpoint with another origin.
    CheckpointOrigin,
    /// A checkpoint with a bit of its signature flipped.
    CheckpointSignature,
    /// Every level-0 tile has a wrong hash.
    HashTile,
    /// Every level-0 tile lacks its last byte.
    HashTileCut,
    /// Every level-0 tile is missing.
    HashTileMissing,
    /// Every data tile has a changed certificate.
    DataTile,
    /// Every issuer is missing.
    IssuerMissing,
    /// Every issuer has a flipped bit.
    IssuerWrong,
    /// Data tiles claim to be gzip and are not.
    Gzip,
    /// Data tiles have another precertificate beside each entry.
    Precertificate,
    /// Data tiles name chains in another order.
    ChainShuffled,
    /// Data tiles name chains without their roots.
    ChainCut,
    /// Data tiles have the content type of text.
    ContentType,
    /// The header that allows scripts to read responses is missing.
    NoCors,
    /// `get-roots` has the content type of text.
    RootsAsText,
    /// The proxy never responds again after some requests.
    GoesAway,
    /// Checkpoints may be cached indefinitely.
    CheckpointCached,
    /// Hash tiles may not be cached.
    TileUncached,
    /// Correctly signed checkpoints with timestamps ten seconds in the past.
    OldClock,
    /// Correctly signed checkpoints of larger trees with the timestamp of the first.
    FrozenClock,
    /// Checkpoints with a flipped bit in their signature, even before the run.
    SignatureAtStart,
}
