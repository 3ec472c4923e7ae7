//! Proofs of logging as files (`.tlog-proof`): an inclusion proof with its checkpoint, which
//! verifies offline (C2SP tlog-proof, main of 2026-07-22).

use std::fmt;

use base64_simd::STANDARD;

use crate::checkpoint::{Checkpoint, CheckpointError, parse_size};
use crate::hash::Hash;
use crate::note::{NoteError, SignedNote};
use crate::policy::{Policy, Untrusted};
use crate::proof::{ProofError, verify_inclusion};

const HEADER: &str = "c2sp.org/tlog-proof@v1";
const EXTRA: &str = "extra ";
const INDEX: &str = "index ";

/// The proof that an entry is in a log, with the checkpoint to which the proof leads.
///
/// `Display` writes the file that [`parse`](Self::parse) reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// Bytes with a meaning for the application. No signature covers them.
    pub extra: Option<Vec<u8>>,
    /// Index of the entry.
    pub index: u64,
    /// The inclusion proof, nearest sibling first.
    pub proof: Vec<Hash>,
    /// The checkpoint with its signatures.
    pub checkpoint: SignedNote,
}

/// The reasons why bytes are not a proof file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlogProofError {
    /// The first line is not the header of a proof.
    #[error("the proof does not begin with the line `{HEADER}`")]
    Header,
    /// The extra data are not standard base64.
    #[error("the extra data are not standard base64")]
    Extra,
    /// There is no line with the index.
    #[error("the proof has no line `{INDEX}` with a decimal number without leading zeros")]
    Index,
    /// A line of the inclusion proof is not a hash in base64.
    #[error("hash {0} of the inclusion proof is not 32 bytes of standard base64")]
    Hash(usize),
    /// There is no empty line before a checkpoint.
    #[error("the proof has no empty line before the checkpoint")]
    NoCheckpoint,
    /// The checkpoint is not a signed note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The text of the note is not a checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// The reasons why a proof does not show that an entry is in a trusted log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLogged {
    /// The policy does not accept the checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] Untrusted),
    /// The inclusion proof is invalid.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

impl TlogProof {
    /// Parses a proof file.
    pub fn parse(bytes: &[u8]) -> Result<Self, TlogProofError> {
        let text = std::str::from_utf8(bytes).map_err(|_| NoteError::Encoding)?;
        let rest = text.strip_prefix(HEADER).ok_or(TlogProofError::Header)?;
        let rest = rest.strip_prefix('\n').ok_or(TlogProofError::Header)?;
        let (lines, note) = rest
            .split_once("\n\n")
            .ok_or(TlogProofError::NoCheckpoint)?;
        let mut lines = lines.split('\n').peekable();

        let extra = lines.next_if(|line| line.starts_with(EXTRA));
        let extra = extra.map(|line| STANDARD.decode_to_vec(&line[EXTRA.len()..]));
        let extra = extra.transpose().map_err(|_| TlogProofError::Extra)?;
        let index = lines.next().and_then(|line| line.strip_prefix(INDEX));
        let index = index.and_then(parse_size).ok_or(TlogProofError::Index)?;
        let proof = lines
            .zip(1..)
            .map(|(line, number)| Hash::from_base64(line).ok_or(TlogProofError::Hash(number)))
            .collect::<Result<_, _>>()?;
        let checkpoint = SignedNote::parse(note.as_bytes())?;
        Checkpoint::parse_extended(&checkpoint.text)?;
        Ok(Self {
            extra,
            index,
            proof,
            checkpoint,
        })
    }

    /// Verifies that the entry with this leaf hash is in a log of the policy, at
    /// [`index`](Self::index), and that enough witnesses of the policy have cosigned the
    /// checkpoint. Returns the checkpoint.
    ///
    /// # Errors
    /// If the policy does not accept the checkpoint, or if the proof is invalid.
    pub fn verify(&self, leaf: &Hash, policy: &Policy) -> Result<Checkpoint, NotLogged> {
        let checkpoint = policy.verify(&self.checkpoint)?;
        let Checkpoint { size, root, .. } = &checkpoint;
        verify_inclusion(leaf, self.index, *size, root, &self.proof)?;
        Ok(checkpoint)
    }
}

impl fmt::Display for TlogProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        if let Some(extra) = &self.extra {
            writeln!(f, "{EXTRA}{}", STANDARD.encode_to_string(extra))?;
        }
        writeln!(f, "{INDEX}{}", self.index)?;
        self.proof
            .iter()
            .try_for_each(|hash| writeln!(f, "{hash}"))?;
        write!(f, "\n{}", self.checkpoint)
    }
}
