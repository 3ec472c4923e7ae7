//! System calls that change files, read from the registers (x86-64) and the memory of the calling
//! thread.

use std::fs;
use std::io::IoSliceMut;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::libc::{self, user_regs_struct};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::Change;

/// A system call of a thread.
pub(super) struct Call {
    /// The calling thread, and the registers with the arguments.
    pub(super) thread: Pid,
    pub(super) arguments: user_regs_struct,
}

/// Maximum length of a path.
const LONGEST_PATH: usize = 4096;

impl Call {
    /// Returns the change that the call would make. The bytes of a write are included only if they
    /// are `kept`.
    pub(super) fn change(&self, kept: bool) -> Option<Change> {
        let a = &self.arguments;
        let at = |directory: u64, path: u64| self.path_at(directory as i32, path);
        match a.orig_rax as i64 {
            libc::SYS_open => self.opening(at(CWD, a.rdi)?, a.rsi),
            libc::SYS_creat => {
                self.opening(at(CWD, a.rdi)?, (libc::O_CREAT | libc::O_TRUNC) as u64)
            }
            libc::SYS_openat => self.opening(at(a.rdi, a.rsi)?, a.rdx),
            // An empty write tests whether the file is writable.
            libc::SYS_write if a.rdx == 0 => None,
            libc::SYS_write => self.write(a.rdi, None, kept.then_some(&[(a.rsi, a.rdx)])),
            libc::SYS_pwrite64 => self.write(a.rdi, Some(a.r10), kept.then_some(&[(a.rsi, a.rdx)])),
            libc::SYS_writev => self.write(a.rdi, None, kept.then_some(&self.parts()?)),
            libc::SYS_pwritev | libc::SYS_pwritev2 => {
                self.write(a.rdi, Some(a.r10), kept.then_some(&self.parts()?))
            }
            libc::SYS_ftruncate => self.resize(a.rdi, a.rsi),
            libc::SYS_fallocate => {
                let (path, inode, length) = self.file(a.rdi)?;
                let length = length.max(a.rdx + a.r10);
                Some(Change::Resize {
                    path,
                    inode,
                    length,
                })
            }
            libc::SYS_rename => rename(at(CWD, a.rdi)?, at(CWD, a.rsi)?),
            libc::SYS_renameat | libc::SYS_renameat2 => {
                rename(at(a.rdi, a.rsi)?, at(a.rdx, a.r10)?)
            }
            libc::SYS_link => link(at(CWD, a.rdi)?, at(CWD, a.rsi)?),
            libc::SYS_linkat => link(at(a.rdi, a.rsi)?, at(a.rdx, a.r10)?),
            libc::SYS_unlink => Some(Change::Remove {
                path: at(CWD, a.rdi)?,
            }),
            libc::SYS_rmdir => Some(Change::RemoveDirectory {
                path: at(CWD, a.rdi)?,
            }),
            libc::SYS_unlinkat => {
                let path = at(a.rdi, a.rsi)?;
                match a.rdx as i32 & libc::AT_REMOVEDIR {
                    0 => Some(Change::Remove { path }),
                    _ => Some(Change::RemoveDirectory { path }),
                }
            }
            libc::SYS_mkdir => Some(Change::MakeDirectory {
                path: at(CWD, a.rdi)?,
            }),
            libc::SYS_mkdirat => Some(Change::MakeDirectory {
                path: at(a.rdi, a.rsi)?,
            }),
            libc::SYS_fsync | libc::SYS_fdatasync => {
                let (path, inode, _) = self.file(a.rdi)?;
                Some(Change::Sync { path, inode })
            }
            libc::SYS_syncfs | libc::SYS_sync => Some(Change::SyncAll),
            _ => None,
        }
    }

    /// Returns the change of a call that opens a file: only if it creates or truncates the file.
    fn opening(&self, path: PathBuf, flags: u64) -> Option<Change> {
        let flags = flags as i32;
        match fs::symlink_metadata(&path) {
            Err(_) if flags & libc::O_CREAT != 0 => Some(Change::Create { path, inode: 0 }),
            Ok(there) if flags & libc::O_TRUNC != 0 && flags & libc::O_EXCL == 0 => {
                let inode = there.ino();
                Some(Change::Resize {
                    path,
                    inode,
                    length: 0,
                })
            }
            _ => None,
        }
    }

    fn write(&self, fd: u64, offset: Option<u64>, parts: Option<&[(u64, u64)]>) -> Option<Change> {
        let (path, inode, length) = self.file(fd)?;
        let offset = match offset {
            Some(offset) => offset,
            None => self.position(fd, length)?,
        };
        let mut bytes = Vec::new();
        for (address, length) in parts.unwrap_or_default() {
            bytes.extend(self.memory(*address, *length as usize)?);
        }
        Some(Change::Write {
            path,
            inode,
            offset,
            bytes,
        })
    }

    fn resize(&self, fd: u64, length: u64) -> Option<Change> {
        let (path, inode, _) = self.file(fd)?;
        Some(Change::Resize {
            path,
            inode,
            length,
        })
    }

    /// Returns the name, inode and length of an open file or directory with a name.
    pub(super) fn file(&self, fd: u64) -> Option<(PathBuf, u64, u64)> {
        let link = self.proc(&format!("fd/{}", fd as i32));
        let path = fs::read_link(&link).ok()?;
        if !path.is_absolute() || path.to_str()?.ends_with(" (deleted)") {
            return None;
        }
        let status = fs::metadata(link).ok()?;
        Some((path, status.ino(), status.len()))
    }

    /// Returns the position of the next write to the file.
    fn position(&self, fd: u64, length: u64) -> Option<u64> {
        let info = fs::read_to_string(self.proc(&format!("fdinfo/{}", fd as i32))).ok()?;
        let value = |key: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(key))
                .map(str::trim)
        };
        let flags = i32::from_str_radix(value("flags:")?, 8).ok()?;
        match flags & libc::O_APPEND {
            0 => value("pos:")?.parse().ok(),
            _ => Some(length),
        }
    }

    fn path_at(&self, directory: i32, path: u64) -> Option<PathBuf> {
        let path = self.text(path)?;
        let path = Path::new(&path);
        if path.is_absolute() {
            return Some(path.to_owned());
        }
        let base = match directory {
            libc::AT_FDCWD => self.proc("cwd"),
            fd => self.proc(&format!("fd/{fd}")),
        };
        let joined = fs::read_link(base).ok()?.join(path);
        // The kernel's form of a path has no `.` components.
        Some(joined.components().collect())
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.thread))
    }

    /// Returns address and length of the parts of a vectored write.
    fn parts(&self) -> Option<Vec<(u64, u64)>> {
        let (address, count) = (self.arguments.rsi, self.arguments.rdx as usize);
        let bytes = self.memory(address, count * 16)?;
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let part = |part: &[u8]| Some((number(&part[..8])?, number(&part[8..])?));
        bytes.chunks_exact(16).map(part).collect()
    }

    fn text(&self, address: u64) -> Option<String> {
        // Reads up to the end of the page, because the next page may not be mapped.
        let mut text = Vec::new();
        while text.len() < LONGEST_PATH {
            let from = address + text.len() as u64;
            let bytes = self.memory(from, (4096 - from % 4096) as usize)?;
            let end = bytes.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if end.is_some() {
                return String::from_utf8(text).ok();
            }
        }
        None
    }

    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let remote = [RemoteIoVec {
            base: address as usize,
            len: length,
        }];
        let read = process_vm_readv(self.thread, &mut [IoSliceMut::new(&mut bytes)], &remote);
        (read.ok()? == length).then_some(bytes)
    }
}

/// The start of relative paths in calls without a directory.
const CWD: u64 = libc::AT_FDCWD as u64;

fn rename(from: PathBuf, to: PathBuf) -> Option<Change> {
    Some(Change::Rename { from, to })
}

fn link(from: PathBuf, to: PathBuf) -> Option<Change> {
    Some(Change::Link { from, to })
}
