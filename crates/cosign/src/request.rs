//! The bodies of `add-checkpoint` and `sign-subtree` (C2SP tlog-witness, main of 2026-07-22).

use std::fmt;

use lucarne_tlog::checkpoint::parse_size;
use lucarne_tlog::{Checkpoint, CheckpointError, Hash, NoteError, SignedNote, Subtree};

/// Maximum number of hashes in a consistency proof.
const MAX_PROOF: usize = 63;

/// Maximum number of signature lines of a checkpoint.
const MAX_SIGNATURES: usize = 64;

/// Maximum length of the text of a checkpoint in bytes: the values in the lock stay small.
const MAX_TEXT: usize = 4 << 10;

/// The reasons why a body is not a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The body is not UTF-8, or has no empty line after the proof.
    #[error("the body has no lines with an empty line before the checkpoint")]
    Lines,
    /// The first line of `add-checkpoint` is invalid.
    #[error("the first line must be `old` and the size of the previous checkpoint")]
    Old,
    /// The previous checkpoint is larger than the new one.
    #[error("the old size {old} is greater than {size}, the size of the checkpoint")]
    Shrunk {
        /// Size of the previous checkpoint.
        old: u64,
        /// Size of the checkpoint.
        size: u64,
    },
    /// The first line of `sign-subtree` is invalid.
    #[error("the first line must be `subtree` and the start and the end of a valid subtree")]
    Range,
    /// The subtree ends after the end of the tree.
    #[error("the subtree {subtree} is not in the tree of {size} leaves")]
    Outside {
        /// The subtree.
        subtree: Subtree,
        /// Size of the checkpoint.
        size: u64,
    },
    /// A line is not a hash.
    #[error("line {0} is not a hash of 32 bytes in standard base64")]
    Hash(usize),
    /// There are too many hashes.
    #[error("the proof has {0} hashes; the maximum is {MAX_PROOF}")]
    Proof(usize),
    /// There are too many signature lines.
    #[error("the checkpoint has {0} signature lines; the maximum is {MAX_SIGNATURES}")]
    Signatures(usize),
    /// The checkpoint has too many extension lines.
    #[error("the checkpoint has {0} bytes without signatures; the maximum is {MAX_TEXT}")]
    Text(usize),
    /// The checkpoint is not a signed note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The text of the note is not a checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// A request to cosign a checkpoint. `Display` writes the body that [`parse`](Self::parse) reads,
/// without repeated signature lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// Size of the previous checkpoint.
    pub old: u64,
    /// Consistency proof from the previous checkpoint.
    pub proof: Vec<Hash>,
    /// The checkpoint with its signatures.
    pub note: SignedNote,
    /// Origin, size and root of the checkpoint.
    pub checkpoint: Checkpoint,
}

/// A request to cosign a subtree. `Display` writes the body that [`parse`](Self::parse) reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignSubtree {
    /// The subtree.
    pub subtree: Subtree,
    /// Hash of the subtree.
    pub hash: Hash,
    /// Consistency proof from the subtree to the checkpoint.
    pub proof: Vec<Hash>,
    /// A checkpoint that this witness has cosigned.
    pub note: SignedNote,
    /// Origin, size and root of the checkpoint.
    pub checkpoint: Checkpoint,
}

impl AddCheckpoint {
    /// Parses the body of a request.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let (first, lines, note) = split(body)?;
        let old = first.strip_prefix("old ").and_then(parse_size);
        let old = old.ok_or(Malformed::Old)?;
        let proof = hashes(&lines)?;
        let (note, checkpoint) = checkpoint(note)?;
        if old > checkpoint.size {
            let size = checkpoint.size;
            return Err(Malformed::Shrunk { old, size });
        }
        Ok(Self {
            old,
            proof,
            note,
            checkpoint,
        })
    }
}

impl SignSubtree {
    /// Parses the body of a request.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let (first, lines, note) = split(body)?;
        let range = first.strip_prefix("subtree ");
        let range = range.and_then(|range| range.split_once(' '));
        let subtree = range
            .and_then(|(start, end)| Subtree::new(parse_size(start)?, parse_size(end)?))
            .ok_or(Malformed::Range)?;
        let (hash, proof) = lines.split_first().ok_or(Malformed::Hash(2))?;
        let hash = Hash::from_base64(hash).ok_or(Malformed::Hash(2))?;
        let proof = hashes(proof)?;
        let (note, checkpoint) = checkpoint(note)?;
        if subtree.end() > checkpoint.size {
            let size = checkpoint.size;
            return Err(Malformed::Outside { subtree, size });
        }
        Ok(Self {
            subtree,
            hash,
            proof,
            note,
            checkpoint,
        })
    }
}

/// Splits a body into its first line, the other lines before the empty line, and the note.
fn split(body: &[u8]) -> Result<(&str, Vec<&str>, &str), Malformed> {
    let body = std::str::from_utf8(body).map_err(|_| Malformed::Lines)?;
    let (lines, note) = body.split_once("\n\n").ok_or(Malformed::Lines)?;
    let mut lines = lines.split('\n');
    let first = lines.next().ok_or(Malformed::Lines)?;
    Ok((first, lines.collect(), note))
}

fn hashes(lines: &[&str]) -> Result<Vec<Hash>, Malformed> {
    if lines.len() > MAX_PROOF {
        return Err(Malformed::Proof(lines.len()));
    }
    let hash =
        |(line, number): (&&str, usize)| Hash::from_base64(line).ok_or(Malformed::Hash(number));
    lines.iter().zip(2..).map(hash).collect()
}

fn checkpoint(note: &str) -> Result<(SignedNote, Checkpoint), Malformed> {
    let mut note = SignedNote::parse(note.as_bytes())?;
    if note.signatures.len() > MAX_SIGNATURES {
        return Err(Malformed::Signatures(note.signatures.len()));
    }
    if note.text.len() > MAX_TEXT {
        return Err(Malformed::Text(note.text.len()));
    }
    // The verification of a copy would cost the same time again.
    let mut different = Vec::new();
    for line in note.signatures {
        if !different.contains(&line) {
            different.push(line);
        }
    }
    note.signatures = different;
    let (checkpoint, _) = Checkpoint::parse_extended(&note.text)?;
    Ok((note, checkpoint))
}

impl fmt::Display for AddCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        write_rest(f, &self.proof, &self.note)
    }
}

impl fmt::Display for SignSubtree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.subtree.start(), self.subtree.end());
        writeln!(f, "subtree {start} {end}\n{}", self.hash)?;
        write_rest(f, &self.proof, &self.note)
    }
}

fn write_rest(f: &mut fmt::Formatter<'_>, proof: &[Hash], note: &SignedNote) -> fmt::Result {
    proof.iter().try_for_each(|hash| writeln!(f, "{hash}"))?;
    write!(f, "\n{note}")
}
