//! Permissions of secret files and directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Error: users outside the groups of this process can access a secret. The text follows the
/// path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is open to {} (mode {mode:o}): {}", self.users(), self.remedy())]
pub struct Exposed {
    path: PathBuf,
    mode: u32,
    is_directory: bool,
}

/// Warning: the group of a secret can access it, and this process is a member of this group. The
/// text follows the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is open to its group (mode {mode:o}), and is accepted because this process is a member of the \
     group"
)]
pub struct SharedWithGroup {
    mode: u32,
}

/// Checks the access rights of a secret file, or of a directory with secrets. The rule for
/// all secrets: a group of this process may have access, for example with a Secret or a volume of
/// Kubernetes (`fsGroup`), where the process cannot change the mode. Other users may not.
///
/// Pipes and devices are not checked, because their contents can be read only once. A file without
/// metadata is not checked, because reading the file reports the error.
///
/// # Errors
/// If all users, or a group without this process, have access.
pub fn check_access(path: &Path) -> Result<Option<SharedWithGroup>, Exposed> {
    let Ok(found) = fs::metadata(path) else {
        return Ok(None);
    };
    if !found.is_file() && !found.is_dir() {
        return Ok(None);
    }
    let mode = found.permissions().mode() & 0o7777;
    match Access::of(mode, || is_member(found.gid())) {
        Access::Owner => Ok(None),
        Access::OwnGroup => Ok(Some(SharedWithGroup { mode })),
        Access::Others => Err(Exposed {
            path: path.to_owned(),
            mode,
            is_directory: found.is_dir(),
        }),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Access {
    Owner,
    OwnGroup,
    Others,
}

impl Access {
    fn of(mode: u32, is_member: impl FnOnce() -> bool) -> Self {
        match (mode & 0o070, mode & 0o007) {
            (0, 0) => Access::Owner,
            (_, 0) if is_member() => Access::OwnGroup,
            _ => Access::Others,
        }
    }
}

fn is_member(group: u32) -> bool {
    rustix::process::getegid().as_raw() == group
        || rustix::process::getgroups()
            .is_ok_and(|groups| groups.iter().any(|own| own.as_raw() == group))
}

impl Exposed {
    fn users(&self) -> &'static str {
        match self.mode & 0o007 {
            0 => "a group that this process is not a member of",
            _ => "all users of this machine",
        }
    }

    fn remedy(&self) -> String {
        let path = self.path.display();
        if self.is_directory {
            format!(
                "run `chmod 700 {path}`, or configure a directory below it, which is created with \
                 mode 700"
            )
        } else {
            format!(
                "run `chmod 600 {path}`, or set `defaultMode: 0440` and `fsGroup` for a Secret of \
                 Kubernetes"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_the_process_has_access_and_other_users_have_none() {
        for (mode, member, expected) in [
            (0o600, false, Access::Owner),
            (0o400, true, Access::Owner),
            (0o440, true, Access::OwnGroup),
            (0o640, true, Access::OwnGroup),
            // Kubernetes adds this to the files of a volume with `fsGroup`.
            (0o660, true, Access::OwnGroup),
            (0o2770, true, Access::OwnGroup),
            (0o440, false, Access::Others),
            (0o620, false, Access::Others),
            (0o644, true, Access::Others),
            (0o602, true, Access::Others),
            (0o2777, true, Access::Others),
        ] {
            assert_eq!(Access::of(mode, || member), expected, "{mode:o} {member}");
        }
    }

    #[test]
    fn the_files_of_this_process_belong_to_a_group_of_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("key");
        fs::write(&file, "secret").unwrap();
        let set = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        set(0o440);
        let shared = check_access(&file).unwrap().unwrap().to_string();
        assert!(
            shared.starts_with("is open to its group (mode 440)"),
            "{shared}"
        );
        set(0o444);
        let exposed = check_access(&file).unwrap_err().to_string();
        let told = "is open to all users of this machine (mode 444): run `chmod 600 ";
        assert!(exposed.starts_with(told), "{exposed}");
        set(0o400);
        assert_eq!(check_access(&file), Ok(None));
        // A volume of Kubernetes (emptyDir) is open to all users. A directory below it is not.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o2777)).unwrap();
        let exposed = check_access(home.path()).unwrap_err().to_string();
        assert!(exposed.contains("a directory below it"), "{exposed}");
    }
}
