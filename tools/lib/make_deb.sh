# make_deb: the Debian package of tools/package, which sources this and has built the programs. The files of the
# package are below debian/ in its folder `package/`.

# The programs, each with its own copy of the kernels, so that they need no library of ours.
install_tree() {
  local stage=$1
  cmake --install "$build" --prefix "$stage/usr" >/dev/null || fail "cmake --install failed; see the messages above"
  mv "$stage/usr/share/zsh/site-functions" "$stage/usr/share/zsh/vendor-completions"
  strip --strip-unneeded --remove-section=.comment --remove-section=.note "$stage"/usr/bin/*
}

install_debian_files() {
  local stage=$1 doc=$1/usr/share/doc/quire
  install -Dm644 "$QUIRE_ROOT/configs/systemd/quire.service" "$stage/lib/systemd/system/quire.service"
  install -Dm644 "$QUIRE_ROOT/configs/systemd/quire.default" "$stage/etc/default/quire"
  install -Dm644 "$QUIRE_ROOT/tools/debian/copyright" "$doc/copyright"
  install -Dm644 "$QUIRE_ROOT/README.md" "$doc/README.md"
  install -Dm644 "$QUIRE_ROOT/CHANGELOG.md" "$doc/NEWS.md"
  printf 'quire (%s) bookworm; urgency=medium\n\n  * See NEWS.md.\n\n -- %s  %s\n' "$version" "$maintainer" \
    "$(date -u -d "@$SOURCE_DATE_EPOCH" -R)" >"$doc/changelog"
  gzip -9n "$doc/changelog" "$doc/NEWS.md" "$stage"/usr/share/man/man1/*.1
}

make_deb() {
  local folder="$QUIRE_ROOT/build/deb" maintainer="Quire developers <quire@packages.debian.org>"
  local stage="$folder/package" architecture depends deb files libraries
  architecture=$(dpkg --print-architecture)
  rm -rf "$folder"
  mkdir -p "$stage/DEBIAN" "$folder/debian"
  install_tree "$stage"
  install_debian_files "$stage"
  # What the programs need of Debian's libraries, with the versions whose symbols they use.
  printf 'Source: quire\n\nPackage: quire\nArchitecture: any\n' >"$folder/debian/control"
  files=("$stage"/usr/bin/*)
  depends=$(cd "$folder" && dpkg-shlibdeps -O "${files[@]}" 2>shlibdeps.log) ||
    fail "dpkg-shlibdeps failed: $(cat "$folder/shlibdeps.log")"
  sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@MAINTAINER@/$maintainer/" \
    -e "s/@DEPENDS@/${depends#shlibs:Depends=}/; s/@SIZE@/$(du -k -s --apparent-size --exclude=DEBIAN "$stage" | cut -f1)/" \
    "$QUIRE_ROOT/tools/debian/control" >"$stage/DEBIAN/control"
  echo /etc/default/quire >"$stage/DEBIAN/conffiles"
  install -m755 -t "$stage/DEBIAN" "$QUIRE_ROOT"/tools/debian/{postinst,prerm,postrm}
  (cd "$stage" && find . -path ./DEBIAN -prune -o -type f ! -path './etc/*' -printf '%P\n' | sort | xargs md5sum) \
    >"$stage/DEBIAN/md5sums"
  deb="$dist/quire_${version}_$architecture.deb"
  mkdir -p "$dist"
  dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$stage" "$deb" >/dev/null || fail "dpkg-deb failed"
  mapfile -t libraries < <(linked_libraries "${files[@]}" | awk '{ print $2 }')
  # shellcheck disable=SC2046,SC2086
  release sbom --name "$(basename "$deb")" --version "$version" --relation DEPENDS_ON \
    --library $(release owners "${libraries[@]}") --compiled $compiled >"$deb.spdx.json"
  add_checksum "$deb"
  say "$deb: $(($(stat -c %s "$deb") / 1024)) KiB"
}
