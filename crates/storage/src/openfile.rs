//! Files that are kept open to be sent.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// A file that never changes, kept open for those who read it.
///
/// All of them together are at most a quarter of the files that this process may have open:
/// whatever is read, descriptors are left for connections, and for what the rounds write.
#[derive(Debug)]
pub struct OpenFile(File);

static OPEN: AtomicUsize = AtomicUsize::new(0);

static MOST: LazyLock<usize> = LazyLock::new(|| {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    usize::try_from(limit / 4).unwrap_or(usize::MAX)
});

impl OpenFile {
    /// Keeps the file, unless there are too many.
    pub fn keep(file: File) -> Option<Self> {
        let counted = OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < *MOST).then_some(open + 1)
        });
        counted.ok().map(|_| Self(file))
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_descriptors_are_left_to_others() {
        let file = tempfile::tempfile().unwrap();
        let keep = || OpenFile::keep(file.try_clone().unwrap());
        OPEN.fetch_add(*MOST, Ordering::Relaxed);
        assert!(keep().is_none());
        OPEN.fetch_sub(*MOST, Ordering::Relaxed);
        let kept = keep().unwrap();
        assert_eq!(OPEN.load(Ordering::Relaxed), 1);
        drop(kept);
        assert_eq!(OPEN.load(Ordering::Relaxed), 0);
    }
}
