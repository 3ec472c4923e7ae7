//! The filter of a table, which excludes nearly all identities that the table does not have.
//!
//! The filter is a Bloom filter in sectors of 512 bytes. Identities are hashes, and the first bytes
//! of an identity give its sector. A filter of any size is therefore written from front to back
//! like its table, and a lookup is one small read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lucarne_ct::Identity;

use super::sealed::{Buffered, SUM, check, damaged, seal};

const SECTOR: usize = 512;
const SECTOR_BITS: u32 = (SECTOR - SUM) as u32 * 8;
/// Average number of identities per sector. Each identity takes 12 bits, and one lookup in 300 is a
/// false positive.
const PER_SECTOR: u64 = SECTOR_BITS as u64 / 12;
/// Maximum size of a filter that is kept in memory, in bytes. Most tables are small.
const FILTER_IN_MEMORY: u64 = 14 << 20;

/// Returns the path of the filter of table number `id`.
pub(super) fn path(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("{id:010}.filter"))
}

/// Returns the first bytes of an identity, which give its position in a table and its sector.
pub(super) fn prefix(identity: &Identity) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&identity.0[..8]);
    u64::from_be_bytes(bytes)
}

/// Returns the bits of an identity in its sector.
fn bits(identity: &Identity) -> impl Iterator<Item = (usize, u8)> {
    identity.0[16..].chunks_exact(2).map(|two| {
        let bit = (u32::from(u16::from_be_bytes([two[0], two[1]])) * SECTOR_BITS) >> 16;
        ((bit / 8) as usize, 1 << (bit % 8))
    })
}

fn sector_of(identity: &Identity, sectors: u64) -> u64 {
    ((u128::from(prefix(identity)) * u128::from(sectors)) >> 64) as u64
}

/// Returns the sector of an identity in a filter of `sectors` sectors.
fn sector_in<'f>(filter: &'f [u8], identity: &Identity, sectors: u64) -> &'f [u8] {
    &filter[sector_of(identity, sectors) as usize * SECTOR..]
}

fn has_bits(sector: &[u8], identity: &Identity) -> bool {
    bits(identity).all(|(byte, bit)| sector[byte] & bit != 0)
}

/// An open filter, in memory or on disk.
pub(super) enum Filter {
    Memory(Vec<u8>),
    Disk(File),
}

impl Filter {
    pub(super) fn open(folder: &Path, id: u64, sectors: u64) -> io::Result<Self> {
        let file = File::open(path(folder, id))?;
        if file.metadata()?.len() != sectors * SECTOR as u64 || sectors == 0 {
            return Err(damaged(id));
        }
        if sectors * SECTOR as u64 > FILTER_IN_MEMORY {
            return Ok(Filter::Disk(file));
        }
        let mut bytes = vec![0; sectors as usize * SECTOR];
        file.read_exact_at(&mut bytes, 0)?;
        for (number, sector) in (0..).zip(bytes.chunks_exact(SECTOR)) {
            check(sector, id, number)?;
        }
        Ok(Filter::Memory(bytes))
    }

    /// Returns whether a lookup must read the disk to find out whether the table has this identity.
    pub(super) fn needs_disk(&self, identity: &Identity, sectors: u64) -> bool {
        match self {
            Filter::Memory(bytes) => has_bits(sector_in(bytes, identity, sectors), identity),
            Filter::Disk(_) => true,
        }
    }

    /// Returns whether this identity may be in table number `id`.
    pub(super) fn may_have(&self, identity: &Identity, id: u64, sectors: u64) -> io::Result<bool> {
        let mut read = [0; SECTOR];
        let sector = match self {
            Filter::Memory(bytes) => sector_in(bytes, identity, sectors),
            Filter::Disk(file) => {
                let sector = sector_of(identity, sectors);
                file.read_exact_at(&mut read, sector * SECTOR as u64)?;
                check(&read, id, sector)?;
                &read
            }
        };
        Ok(has_bits(sector, identity))
    }
}

/// A filter that is being written.
pub(super) struct FilterWriter {
    file: Buffered,
    pub(super) sectors: u64,
    /// The number of the sector that is being filled.
    number: u64,
    sector: [u8; SECTOR],
}

impl FilterWriter {
    /// Begins the filter of table number `id` with at most `at_most` entries.
    pub(super) fn create(folder: &Path, id: u64, at_most: u64) -> io::Result<Self> {
        Ok(FilterWriter {
            file: Buffered::create(&path(folder, id))?,
            sectors: at_most.div_ceil(PER_SECTOR).max(1),
            number: 0,
            sector: [0; SECTOR],
        })
    }

    /// Adds an identity to table number `id`. The caller adds identities in ascending order.
    pub(super) fn add(&mut self, identity: &Identity, id: u64) -> io::Result<()> {
        let sector = sector_of(identity, self.sectors);
        while self.number < sector {
            self.end_sector(id)?;
        }
        for (byte, bit) in bits(identity) {
            self.sector[byte] |= bit;
        }
        Ok(())
    }

    fn end_sector(&mut self, id: u64) -> io::Result<()> {
        seal(&mut self.sector, id, self.number);
        self.file.write(&self.sector)?;
        self.sector = [0; SECTOR];
        self.number += 1;
        Ok(())
    }

    /// Syncs the filter, but not yet the name of its file.
    pub(super) fn finish(&mut self, id: u64) -> io::Result<()> {
        while self.number < self.sectors {
            self.end_sector(id)?;
        }
        self.file.sync()
    }
}
