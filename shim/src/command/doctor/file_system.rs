//! Which file system a path is on, as far as it matters: SQLite's locks and our own are only sure on a local one.

use std::path::Path;

/// Where a path's file system is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileSystem {
    /// On this machine, or of a kind that is not known to be elsewhere.
    Local,
    /// On another machine; its kind.
    Network(String),
    /// The system does not say.
    Unknown,
}

/// Kinds of file systems by the number that `statfs(2)` gives, all of them on other machines.
#[cfg(target_os = "linux")]
const NETWORK: [(u32, &str); 13] = [
    (0x0000_6969, "nfs"),
    (0x0000_517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "kafs"),
    (0x00c3_6400, "ceph"),
    (0x7375_7245, "coda"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x0bd0_0bd0, "lustre"),
    (0x786f_4256, "vboxsf"),
];

#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

/// Kinds below FUSE that are on this machine.
#[cfg(target_os = "linux")]
const LOCAL_FUSE: [&str; 12] = [
    "fuse.bindfs",
    "fuse.encfs",
    "fuse.fuse-overlayfs",
    "fuse.gocryptfs",
    "fuse.lxcfs",
    "fuse.mergerfs",
    "fuse.ntfs-3g",
    "fuse.securefs",
    "fuse.unionfs",
    "fuse.zfs",
    "fuseblk",
    "fuse.cryfs",
];

/// Returns where the file system of a path is; of one that is not there yet, that of the directory it would be in.
#[cfg(target_os = "linux")]
pub(super) fn of(path: &Path) -> FileSystem {
    let Some(existing) = path.ancestors().find_map(|ancestor| ancestor.canonicalize().ok()) else {
        return FileSystem::Unknown;
    };
    let Ok(found) = rustix::fs::statfs(&existing) else { return FileSystem::Unknown };
    // The number is 32 bits wide on every file system; its type is wider on some machines.
    let kind = found.f_type as u32;
    if kind == FUSE {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        return of_fuse(mounted_kind(&mounts, &existing));
    }
    NETWORK.iter().find(|(number, _)| *number == kind).map_or(FileSystem::Local, |(_, name)| network(name))
}

/// As above, where nothing is asked yet.
#[cfg(not(target_os = "linux"))]
pub(super) fn of(_: &Path) -> FileSystem {
    FileSystem::Unknown
}

#[cfg(target_os = "linux")]
fn of_fuse(kind: Option<String>) -> FileSystem {
    match kind {
        None => FileSystem::Unknown,
        Some(kind) if LOCAL_FUSE.contains(&kind.as_str()) => FileSystem::Local,
        Some(kind) => FileSystem::Network(kind),
    }
}

#[cfg(target_os = "linux")]
fn network(kind: &str) -> FileSystem {
    FileSystem::Network(kind.to_owned())
}

/// Returns the kind of the file system that is mounted closest above a path.
#[cfg(target_os = "linux")]
fn mounted_kind(mounts: &str, path: &Path) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = unescaped(before.split(' ').nth(4)?);
        let kind = after.split(' ').next()?;
        path.starts_with(&point).then(|| (point.len(), kind.to_owned()))
    });
    // Of two at one place, the later one covers the other.
    mounted.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Takes back the octal escapes of a mount point.
#[cfg(target_os = "linux")]
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_directory_is_local_even_for_a_path_that_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(of(&directory.path().join("a/b/c")), FileSystem::Local);
    }

    #[test]
    fn the_closest_mount_tells_the_kind_below_fuse() {
        let mounts = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 22 0:50 / /home/me/far\\040away rw,nosuid shared:9 - fuse.sshfs me@host:/ rw
91 22 0:51 / /home/me/plain rw - fuse.gocryptfs /x rw
";
        let kind = |path: &str| mounted_kind(mounts, Path::new(path));
        assert_eq!(kind("/home/me/far away/x").as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind("/home/me/far").as_deref(), Some("ext4"));
        assert_eq!(of_fuse(kind("/home/me/far away")), FileSystem::Network("fuse.sshfs".into()));
        assert_eq!(of_fuse(kind("/home/me/plain/x")), FileSystem::Local);
        assert_eq!(of_fuse(None), FileSystem::Unknown);
    }
}
