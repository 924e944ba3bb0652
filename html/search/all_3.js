var searchData=
[
  ['security_0',['Security',['../md_SECURITY.html',1,'']]]
];
